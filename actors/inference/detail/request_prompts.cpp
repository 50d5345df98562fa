#include "actors/inference/detail/request_prompts.hpp"

#include <limits>
#include <optional>

namespace gpunode::inference::openai {
namespace {

// Of a request's own JSON the front takes a megabyte, which as numbers is no more than this.
constexpr std::size_t kMostPromptTokens = std::size_t{1} << 19;

using Tokens = std::vector<std::int32_t>;

// A list of numbers of tokens; nothing where it is none.
std::optional<Tokens> tokens_of(const Json& list) {
  if (!list.is_array() || list.empty() || list.size() > kMostPromptTokens) return std::nullopt;
  Tokens tokens;
  for (const Json& one : list) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (!one.is_number_unsigned() || one.get<std::uint64_t>() > kMost) return std::nullopt;
    tokens.push_back(one.get<std::int32_t>());
  }
  return tokens;
}

}  // namespace

std::vector<Prompt> read_prompts(Fields& fields, const std::string& name, std::size_t most) {
  const Json* found = fields.find(name);
  std::vector<Prompt> prompts;
  if (fields.failure) return prompts;
  if (!found || (found->is_array() && found->empty())) {
    fields.refuse(name, "is missing");
    return prompts;
  }
  const bool is_one = !found->is_array() || found->front().is_number();
  const Json list = is_one ? Json::array({*found}) : *found;
  if (list.size() > most) fields.refuse(name, "has more than " + std::to_string(most) + " entries");
  for (const Json& one : list) {
    if (fields.failure) break;
    if (one.is_string()) {
      prompts.push_back({one.get<std::string>(), {}});
    } else if (auto tokens = tokens_of(one)) {
      prompts.push_back({{}, *std::move(tokens)});
    } else {
      fields.refuse(name,
                    "must be a text, a list of token numbers (one at least, none negative), or a "
                    "list of such");
    }
  }
  return prompts;
}

}  // namespace gpunode::inference::openai
