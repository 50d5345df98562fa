// The strict half of safetensors.hpp: bytes of unknown origin to a header, or a reason.
// A streaming (SAX) parse, so that no tree of a hostile document is ever built.
#include "runtime/snapshot/detail/element_names.hpp"
#include "runtime/snapshot/safetensors.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <tuple>

namespace gpunode::snapshot {
namespace {

Error refused(const std::string& why) {
  return Error{ErrorCode::corrupted, "not a valid safetensors file: " + why};
}

// state      key            value                       end
// before     -              { -> top                    -
// top        -> name        { -> tensor or metadata     done
// metadata   -> key         string                      top
// tensor     -> field       string, [ -> array          top (all three fields seen)
// array      -              unsigned number             tensor
class HeaderParser : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader header;
  std::string reason;

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool number_integer(number_integer_t) override { return refuse("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return refuse("a fraction"); }
  bool binary(binary_t&) override { return refuse("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::array) return refuse("a number");
    std::size_t limit = field_ == "shape" ? kSafetensorsRankLimit : 2;
    if (numbers_.size() == limit) return fail(field_ + " of " + tensor_.name + " is too long");
    numbers_.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::metadata) {
      header.metadata[field_] = std::move(value);
      return true;
    }
    if (state_ != State::tensor || field_ != "dtype") return refuse("a string");
    std::optional<ElementType> type = detail::element_named(value);
    if (!type) return fail("element type " + value.substr(0, 16) + " is not known");
    tensor_.type = *type;
    return true;
  }

  bool start_object(std::size_t) override {
    if (state_ == State::before) {
      state_ = State::top;
      return true;
    }
    if (state_ != State::top) return refuse("an object");
    state_ = tensor_.name == "__metadata__" ? State::metadata : State::tensor;
    seen_.clear();
    return true;
  }

  bool key(string_t& value) override {
    if (state_ == State::top) {
      if (!names_.insert(value).second) return fail("the name " + brief(value) + " stands twice");
      if (names_.size() > kSafetensorsTensorLimit) return fail("too many tensors");
      tensor_ = {};
      tensor_.name = std::move(value);
      return true;
    }
    field_ = std::move(value);
    if (!seen_.insert(field_).second) return fail("the field " + brief(field_) + " stands twice");
    bool known = field_ == "dtype" || field_ == "shape" || field_ == "data_offsets";
    if (state_ == State::tensor && !known) return fail("unknown field " + brief(field_));
    return true;
  }

  bool end_object() override {
    if (state_ == State::tensor) {
      if (seen_.size() != 3) return fail(brief(tensor_.name) + " lacks a field");
      header.tensors.push_back(std::move(tensor_));
    }
    state_ = state_ == State::top ? State::done : State::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ != State::tensor || field_ == "dtype") return refuse("an array");
    state_ = State::array;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    state_ = State::tensor;
    if (field_ == "shape") {
      tensor_.shape = std::move(numbers_);
      return true;
    }
    if (numbers_.size() != 2) return fail("data_offsets of " + brief(tensor_.name));
    tensor_.begin = numbers_[0];
    tensor_.end = numbers_[1];
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    return fail("its header is not JSON at byte " + std::to_string(position));
  }

 private:
  enum class State { before, top, metadata, tensor, array, done };

  static std::string brief(const std::string& text) { return text.substr(0, 64); }
  bool fail(std::string why) {
    reason = std::move(why);
    return false;
  }
  bool refuse(const char* what) { return fail(std::string(what) + " where none may stand"); }

  State state_ = State::before;
  std::string field_;
  TensorEntry tensor_;
  std::vector<std::uint64_t> numbers_;
  std::set<std::string> names_, seen_;
};

std::optional<std::string> flaw_of_places(std::vector<TensorEntry>& tensors,
                                          std::uint64_t data_bytes) {
  std::ranges::sort(tensors, {}, [](const TensorEntry& tensor) {
    return std::tie(tensor.begin, tensor.end, tensor.name);
  });
  std::uint64_t next = 0;
  for (const TensorEntry& tensor : tensors) {
    std::optional<std::uint64_t> bytes = tensor_bytes(tensor.type, tensor.shape);
    std::string name = tensor.name.substr(0, 64);
    if (!bytes) return "the shape of " + name + " is too large";
    if (tensor.begin != next) return "gap or overlap before " + name;
    if (tensor.end < tensor.begin || tensor.end - tensor.begin != *bytes)
      return "place and shape of " + name + " do not match";
    if (tensor.end > data_bytes) return name + " lies beyond the end of the file";
    next = tensor.end;
  }
  if (next != data_bytes) return "bytes after the last tensor";
  return std::nullopt;
}

}  // namespace

Result<std::uint64_t> safetensors_header_bytes(ByteView first_eight, std::uint64_t file_bytes) {
  if (first_eight.size() < 8 || file_bytes < 8) return refused("shorter than 8 bytes");
  std::uint64_t length = 0;
  for (int i = 0; i < 8; ++i) length |= std::to_integer<std::uint64_t>(first_eight[i]) << (8 * i);
  if (length > kSafetensorsHeaderLimitBytes) return refused("its header is too long");
  if (length > file_bytes - 8) return refused("it ends inside its header");
  return length + 8;
}

Result<SafetensorsHeader> decode_safetensors_header(ByteView head, std::uint64_t file_bytes) {
  Result<std::uint64_t> length = safetensors_header_bytes(head, file_bytes);
  if (!length) return length.error();
  if (head.size() < *length) return refused("it ends inside its header");
  std::string_view json = as_text(head.subspan(8, *length - 8));
  if (!json.starts_with('{')) return refused("its header does not begin with {");
  HeaderParser parser;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &parser)) return refused(parser.reason);
  parser.header.data_offset = *length;
  if (auto flaw = flaw_of_places(parser.header.tensors, file_bytes - *length))
    return refused(*flaw);
  return std::move(parser.header);
}

}  // namespace gpunode::snapshot
