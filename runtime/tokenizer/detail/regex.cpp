#include "runtime/tokenizer/detail/regex.hpp"

#include <oniguruma.h>

#include "runtime/tokenizer/detail/unicode.hpp"

namespace gpunode::tokenizer::detail {
namespace {

// Steps back of one search; an expression that a model came with takes a handful a character.
constexpr unsigned long kMostRetries = 10'000'000;

const OnigUChar* start_of(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

std::string text_of(int code, OnigErrorInfo* info) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length = onig_error_code_to_str(text, code, info);
  return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(length)};
}

bool made_ready() {
  OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
  return onig_initialize(encodings, 1) == ONIG_NORMAL;
}

}  // namespace

struct Regex::Compiled {
  OnigRegex regex = nullptr;
  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    if (regex) onig_free(regex);
  }
};

Result<Regex> Regex::open(const std::string& expression) {
  static const bool ready = made_ready();
  if (!ready) return {ErrorCode::internal, "Oniguruma cannot be used"};
  auto compiled = std::make_shared<Compiled>();
  OnigErrorInfo info;
  const int code =
      onig_new(&compiled->regex, start_of(expression), start_of(expression) + expression.size(),
               ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &info);
  if (code != ONIG_NORMAL) {
    compiled->regex = nullptr;
    return {ErrorCode::invalid_argument,
            "'" + expression + "' is no regular expression: " + text_of(code, &info)};
  }
  return Regex(std::move(compiled));
}

Result<void> Regex::each(std::string_view text, const Found& found) const {
  const std::unique_ptr<OnigRegion, void (*)(OnigRegion*)> region(
      onig_region_new(), [](OnigRegion* one) { onig_region_free(one, 1); });
  const std::unique_ptr<OnigMatchParam, void (*)(OnigMatchParam*)> limits(
      onig_new_match_param(), [](OnigMatchParam* one) { onig_free_match_param(one); });
  onig_initialize_match_param(limits.get());
  onig_set_retry_limit_in_match_of_match_param(limits.get(), kMostRetries);
  onig_set_retry_limit_in_search_of_match_param(limits.get(), kMostRetries);
  const OnigUChar* const begin = start_of(text);
  const OnigUChar* const end = begin + text.size();
  std::size_t at = 0, last_end = text.size() + 1;  // none yet
  while (at <= text.size()) {
    const int code = onig_search_with_param(compiled_->regex, begin, end, begin + at, end,
                                            region.get(), ONIG_OPTION_NONE, limits.get());
    if (code == ONIG_MISMATCH) return {};
    if (code < 0)
      return {ErrorCode::resource_exhausted,
              "the text takes too long to be split into words: " + text_of(code, nullptr)};
    const auto first = static_cast<std::size_t>(region->beg[0]);
    const auto last = static_cast<std::size_t>(region->end[0]);
    // An empty one right behind the last one is none, and the search goes on a character later.
    if (first == last && last == last_end) {
      at += at < text.size() ? character_length(text.substr(at)) : 1;
      continue;
    }
    found(first, last);
    at = last_end = last;
  }
  return {};
}

}  // namespace gpunode::tokenizer::detail
