#include "runtime/transport/detail/credit_window.hpp"

#include <algorithm>

namespace gpunode::transport::detail {

namespace {
constexpr Duration kForget = std::chrono::seconds(10);      // routes change
constexpr Duration kNear = std::chrono::microseconds(500);  // needs no more than the smallest
}  // namespace

void CreditWindow::on_sent(Time now, std::uint64_t bytes) {
  sent_ += bytes;
  if (!mark_) mark_ = {sent_, now};
  shut_ = shut_ || !may_send();
}

bool CreditWindow::on_credit(Time now, std::uint64_t taken) {
  if (taken > sent_) return false;
  credited_ = std::max(credited_, taken);
  if (mark_ && credited_ >= mark_->at) take_sample(now);
  return true;
}

// A round trip that is hardly longer than the shortest means that the link was not full.
void CreditWindow::take_sample(Time now) {
  const Duration trip = std::max<Duration>(now - mark_->when, std::chrono::microseconds(1));
  if (shortest_ == Duration{} || trip <= shortest_ || now - shortest_at_ > kForget) {
    shortest_ = trip;
    shortest_at_ = now;
  }
  if (shortest_ < kNear)
    window_ = least_;
  else if (shut_ && trip < shortest_ * 3 / 2)
    window_ = std::min(window_ + window_ / 4, kLargest);
  else if (trip > shortest_ * 3)
    window_ = std::max(window_ - window_ / 8, least_);
  mark_.reset();
  shut_ = false;
}

}  // namespace gpunode::transport::detail
