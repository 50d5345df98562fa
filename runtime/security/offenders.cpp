#include "runtime/security/offenders.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/bytes.hpp"

namespace gpunode::security {
namespace {

constexpr Duration kFirstPause = std::chrono::seconds(2), kLongestPause = std::chrono::minutes(1);
// Whoever gave no more reason for so long begins with the first pause again.
constexpr Duration kForgottenAfter = std::chrono::minutes(10);

}  // namespace

void Offenders::offended(const NodeId& by, double count) {
  const Time now = clock_.now();
  std::lock_guard lock(mutex_);
  if (tolerated_.allow(as_text(by.value), now, count)) return;
  if (offenders_.size() >= kMany)
    std::erase_if(offenders_, [&](const auto& one) {
      return one.second.is_over && now >= one.second.until + kForgottenAfter;
    });
  if (offenders_.size() >= kMany && !offenders_.contains(by)) return;  // as many as may be members
  Offender& is = offenders_[by];
  if (now < is.until) return;  // what was under way
  const bool anew = now >= is.until + kForgottenAfter;
  is.pause = anew ? kFirstPause : std::clamp(is.pause * 2, kFirstPause, kLongestPause);
  is.until = now + is.pause;
  is.told = is.is_over = false;
}

bool Offenders::is_put_off(const NodeId& node) const {
  std::lock_guard lock(mutex_);
  const auto found = offenders_.find(node);
  return found != offenders_.end() && clock_.now() < found->second.until;
}

Offenders::News Offenders::take_news() {
  News news;
  const Time now = clock_.now();
  std::lock_guard lock(mutex_);
  for (auto& [node, is] : offenders_) {
    if (!std::exchange(is.told, true)) news.put_off.push_back({node, is.pause});
    if (!is.is_over && now >= is.until) {
      is.is_over = true;
      news.heard_again.push_back(node);
    }
  }
  return news;
}

}  // namespace gpunode::security
