#include "actors/job/disk_watch.hpp"

#include <algorithm>

namespace gpunode::jobs {

std::string_view to_string(DiskWork work) {
  switch (work) {
    case DiskWork::search:
      return "looked for";
    case DiskWork::write:
      return "written";
    case DiskWork::read:
      return "read";
  }
  return "read";
}

void DiskWatch::add_at(Time now, DiskOrder order, std::deque<DiskOrder>::iterator at) {
  if (at == orders_.begin()) since_ = now;
  orders_.insert(at, order);
}

void DiskWatch::add_first(Time now, DiskOrder order) {
  add_at(now, order, orders_.begin());
}

void DiskWatch::done(Time now) {
  if (orders_.empty()) return;
  Duration& usual = usual_[static_cast<std::size_t>(orders_.front().work)];
  const Duration took = now - since_;
  usual = usual == Duration{} ? took : (3 * usual + took) / 4;
  orders_.pop_front();
  since_ = now;
}

Duration DiskWatch::timeout() const {
  return std::max(kLeast, kTimesUsual * *std::max_element(std::begin(usual_), std::end(usual_)));
}

std::optional<LateOrder> DiskWatch::late(Time now) const {
  if (orders_.empty() || now < since_ + timeout()) return std::nullopt;
  const DiskOrder& first = orders_.front();
  return LateOrder{first, now - since_, usual_[static_cast<std::size_t>(first.work)]};
}

bool DiskWatch::restores() const {
  return std::any_of(orders_.begin(), orders_.end(),
                     [](const DiskOrder& order) { return order.restores; });
}

}  // namespace gpunode::jobs
