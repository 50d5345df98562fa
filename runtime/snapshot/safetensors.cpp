#include "runtime/snapshot/safetensors.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "runtime/base/check.hpp"
#include "runtime/snapshot/detail/element_names.hpp"

namespace gpunode::snapshot {
namespace {

// A name that is no UTF-8 would make the header unreadable: what is wrong in it is replaced.
std::string text_of(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string json_of(const SafetensorsHeader& header) {
  std::string json = "{";
  const auto add = [&](const std::string& name, const nlohmann::ordered_json& value) {
    json += (json.size() > 1 ? "," : "") + text_of(name) + ":" + text_of(value);
  };
  if (!header.metadata.empty()) add("__metadata__", header.metadata);
  for (const TensorEntry& tensor : header.tensors)
    add(tensor.name, {{"dtype", detail::kElements[detail::element_rank(tensor.type)].name},
                      {"shape", tensor.shape},
                      {"data_offsets", {tensor.begin, tensor.end}}});
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return json;
}

}  // namespace

const TensorEntry* SafetensorsHeader::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &TensorEntry::name);
  return found == tensors.end() ? nullptr : &*found;
}

std::uint64_t SafetensorsHeader::file_bytes() const {
  return data_offset + (tensors.empty() ? 0 : tensors.back().end);
}

std::optional<std::uint64_t> tensor_bytes(ElementType type,
                                          const std::vector<std::uint64_t>& shape) {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 63;
  std::uint64_t bytes = detail::kElements[detail::element_rank(type)].bytes;
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
  std::ranges::sort(tensors, {}, [](const TensorEntry& tensor) {
    return std::pair(-std::ptrdiff_t(detail::element_rank(tensor.type)),
                     std::string_view(tensor.name));
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
  Bytes bytes;
  append_number(bytes, json.size());
  ByteView text = as_bytes(json);
  bytes.insert(bytes.end(), text.begin(), text.end());
  return bytes;
}

}  // namespace gpunode::snapshot
