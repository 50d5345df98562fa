#include "actors/inference/api_quota.hpp"

#include <algorithm>
#include <cmath>

namespace gpunode::inference {
namespace {

constexpr double kRounding = 1e-6;  // of what has come bit by bit

}  // namespace

void ApiQuota::Bucket::fill(Duration passed, std::uint64_t now_per_minute) {
  const auto full = static_cast<double>(now_per_minute);
  if (per_minute != full) {  // the key is new, or has other limits by now
    level += full - per_minute;
    per_minute = full;
  }
  const double minutes = std::chrono::duration<double>(passed).count() / 60;
  level = std::min(per_minute, level + std::max(0.0, minutes) * per_minute);
}

std::chrono::seconds ApiQuota::Bucket::time_to(double wanted) const {
  const double seconds = (wanted - level) * 60 / per_minute;
  return std::chrono::seconds(
      std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(seconds - kRounding))));
}

ApiQuota::Use& ApiQuota::use_of(const ApiKey& key, Time now) {
  const auto [found, is_new] = uses_.try_emplace(key.id);
  Use& use = found->second;
  const Duration passed = is_new ? Duration::zero() : now - use.seen;
  use.requests.fill(passed, key.requests_per_minute);
  use.tokens.fill(passed, key.tokens_per_minute);
  use.seen = is_new ? now : std::max(use.seen, now);
  return use;
}

double ApiQuota::set_aside(const ApiKey& key, std::uint64_t tokens) {
  return static_cast<double>(std::min(tokens, key.tokens_per_minute));
}

std::optional<ApiQuota::Refusal> ApiQuota::begin(const ApiKey& key, std::uint64_t tokens,
                                                 Time now) {
  Use& use = use_of(key, now);
  const std::string whose = "key '" + key.name + "' ";
  if (key.at_once > 0 && use.under_way >= key.at_once)
    return Refusal{
        whose + "has as many requests under way as it may: " + std::to_string(key.at_once),
        std::chrono::seconds(1)};
  if (key.requests_per_minute > 0 && use.requests.level < 1 - kRounding)
    return Refusal{whose + "has asked more often than it may: " +
                       std::to_string(key.requests_per_minute) + " requests a minute",
                   use.requests.time_to(1)};
  // A text that may be none is refused only where tokens are owed.
  const double wanted = std::max(1.0, set_aside(key, tokens));
  if (key.tokens_per_minute > 0 && use.tokens.level < wanted - kRounding)
    return Refusal{whose + "has used, or has under way, as many tokens as it may: " +
                       std::to_string(key.tokens_per_minute) + " a minute",
                   use.tokens.time_to(wanted)};
  ++use.under_way;
  if (key.requests_per_minute > 0) use.requests.level -= 1;
  if (key.tokens_per_minute > 0) use.tokens.level -= set_aside(key, tokens);
  return {};
}

void ApiQuota::end(const ApiKey& key, std::uint64_t tokens, std::uint64_t used, Time now) {
  Use& use = use_of(key, now);
  if (use.under_way > 0) --use.under_way;
  if (key.tokens_per_minute > 0)
    use.tokens.level = std::min(use.tokens.per_minute, use.tokens.level + set_aside(key, tokens) -
                                                           static_cast<double>(used));
}

}  // namespace gpunode::inference
