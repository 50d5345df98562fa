#include "runtime/snapshot/safetensors.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"
#include "runtime/snapshot/detail/element_names.hpp"

namespace gpunode::snapshot {
namespace {

void append_quoted(std::string& text, std::string_view value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  text.push_back('"');
  for (char c : value) {
    switch (c) {
      case '"':
        text += "\\\"";
        break;
      case '\\':
        text += "\\\\";
        break;
      case '\b':
        text += "\\b";
        break;
      case '\f':
        text += "\\f";
        break;
      case '\n':
        text += "\\n";
        break;
      case '\r':
        text += "\\r";
        break;
      case '\t':
        text += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          text += "\\u00";
          text.push_back(kDigits[c >> 4]);
          text.push_back(kDigits[c & 15]);
        } else {
          text.push_back(c);
        }
    }
  }
  text.push_back('"');
}

std::string json_of(const SafetensorsHeader& header) {
  std::string json = "{";
  if (!header.metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : header.metadata) {
      if (json.back() != '{') json += ",";
      append_quoted(json, key);
      json += ":";
      append_quoted(json, value);
    }
    json += "}";
  }
  for (const TensorEntry& tensor : header.tensors) {
    if (json.size() > 1) json += ",";
    append_quoted(json, tensor.name);
    json += ":{\"dtype\":\"";
    json += detail::kElements[detail::element_rank(tensor.type)].name;
    json += "\",\"shape\":[";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i)
      json += (i ? "," : "") + std::to_string(tensor.shape[i]);
    json += "],\"data_offsets\":[" + std::to_string(tensor.begin) + "," +
            std::to_string(tensor.end) + "]}";
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return json;
}

}  // namespace

const TensorEntry* SafetensorsHeader::find(std::string_view name) const {
  for (const TensorEntry& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

std::uint64_t SafetensorsHeader::file_bytes() const {
  return data_offset + (tensors.empty() ? 0 : tensors.back().end);
}

std::uint64_t element_bytes(ElementType type) {
  return detail::kElements[detail::element_rank(type)].bytes;
}

std::optional<std::uint64_t> tensor_bytes(ElementType type,
                                          const std::vector<std::uint64_t>& shape) {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 63;
  std::uint64_t bytes = element_bytes(type);
  bool empty = false;
  for (std::uint64_t extent : shape) {
    if (extent == 0)
      empty = true;
    else if (extent > kLimit / bytes)
      return std::nullopt;
    else
      bytes *= extent;
  }
  if (empty) return 0;
  if (bytes >= kLimit) return std::nullopt;
  return bytes;
}

SafetensorsHeader plan_safetensors(std::vector<TensorEntry> tensors,
                                   std::map<std::string, std::string> metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    std::size_t rank_a = detail::element_rank(a.type), rank_b = detail::element_rank(b.type);
    return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
  });
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    GPUNODE_CHECK(
        i == 0 || tensors[i - 1].type != tensors[i].type || tensors[i - 1].name != tensors[i].name,
        "two tensors named " + tensors[i].name);
    std::optional<std::uint64_t> bytes = tensor_bytes(tensors[i].type, tensors[i].shape);
    GPUNODE_CHECK(bytes.has_value(), "shape of " + tensors[i].name + " overflows");
    tensors[i].begin = next;
    tensors[i].end = next += *bytes;
  }
  SafetensorsHeader header{std::move(metadata), std::move(tensors), 0};
  header.data_offset = 8 + json_of(header).size();
  return header;
}

Bytes encode_safetensors_header(const SafetensorsHeader& header) {
  std::string json = json_of(header);
  Bytes bytes(8);
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(json.size() >> (8 * i));
  ByteView text = as_bytes(json);
  bytes.insert(bytes.end(), text.begin(), text.end());
  return bytes;
}

}  // namespace gpunode::snapshot
