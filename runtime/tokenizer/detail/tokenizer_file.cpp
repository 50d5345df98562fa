#include "runtime/tokenizer/detail/tokenizer_file.hpp"

#include <array>
#include <functional>
#include <optional>

namespace gpunode::tokenizer::detail {
namespace {

using Event = Json::parse_event_t;
constexpr std::uint64_t kLargestToken = 1u << 22;  // sixteen times the largest vocabularies

// Told of each part of the file as it is read; what it takes is not kept by the parser.
class LongLists {
 public:
  explicit LongLists(TokenizerFile& file) : file_(file) {}

  bool operator()(int depth, Event event, Json& value) {
    if (event == Event::key && depth >= 1 && depth <= 3)
      keys_[static_cast<std::size_t>(depth)] = value.get<std::string>();
    if (depth < 3 || keys_[1] != "model") return true;
    if (keys_[2] == "vocab" && event == Event::value && depth == 3) return take_token(value);
    if (keys_[2] == "merges" && event == Event::value) return take_merge(depth, value);
    if (keys_[2] == "merges" && event == Event::array_end) return depth != 3;  // a taken pair
    return true;
  }

  // What was wrong with a list.
  const std::string& mistake() const { return mistake_; }

 private:
  bool take_token(const Json& value) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kLargestToken)
      mistake_ = "the number of token '" + keys_[3] + "' is none";
    else
      file_.vocabulary.emplace_back(keys_[3], value.get<Token>());
    return false;
  }

  bool take_merge(int depth, const Json& value) {
    if (!value.is_string()) {
      mistake_ = "a merge is no text";
      return false;
    }
    auto text = value.get<std::string>();
    if (depth == 4) {  // newer files have each half by itself
      if (!half_) {
        half_ = std::move(text);
      } else {
        file_.merges.emplace_back(*std::move(half_), std::move(text));
        half_.reset();
      }
      return false;
    }
    const std::size_t space = text.find(' ');
    if (space == std::string::npos)
      mistake_ = "the merge '" + text + "' has no two halves";
    else
      file_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    return false;
  }

  TokenizerFile& file_;
  std::array<std::string, 4> keys_;  // by depth
  std::optional<std::string> half_;
  std::string mistake_;
};

}  // namespace

Result<TokenizerFile> read_tokenizer_file(std::string_view json) {
  TokenizerFile file;
  LongLists lists(file);
  file.rest = Json::parse(json, std::ref(lists), false);
  if (file.rest.is_discarded() || !file.rest.is_object())
    return {ErrorCode::corrupted, "tokenizer.json is no JSON object"};
  if (!lists.mistake().empty()) return {ErrorCode::corrupted, "tokenizer.json: " + lists.mistake()};
  return file;
}

}  // namespace gpunode::tokenizer::detail
