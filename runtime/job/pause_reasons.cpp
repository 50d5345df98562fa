#include "runtime/job/pause_reasons.hpp"

namespace gpunode::job {

namespace {
constexpr std::size_t kMostReasons = 16;
constexpr Duration kToldAgain = std::chrono::seconds(10);
}  // namespace

bool PauseReasons::tell(Time now, const std::string& reason) {
  const auto known = told_.find(reason);
  const bool news = known == told_.end() ? told_.size() < kMostReasons
                                         : last_ != reason && now >= known->second + kToldAgain;
  if (!news) return false;
  told_[reason] = now;
  last_ = reason;
  return true;
}

}  // namespace gpunode::job
