// Where a device group can be given up from while another thread still forms it, whatever that is
// waiting for. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "kernels/ops/device_group.hpp"

namespace gpunode::compute {

class GroupSlot {
 public:
  // The group that is being formed; given up at once where nobody wants it any more.
  void put(std::shared_ptr<ops::DeviceGroup> group) {
    std::lock_guard lock(mutex_);
    group_ = std::move(group);
    if (!over_.empty()) group_->give_up(over_);
  }
  void give_up(const std::string& reason) {
    std::lock_guard lock(mutex_);
    over_ = reason.empty() ? "it is over" : reason;
    if (group_) group_->give_up(over_);
  }
  std::shared_ptr<ops::DeviceGroup> group() const {
    std::lock_guard lock(mutex_);
    return group_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<ops::DeviceGroup> group_;
  std::string over_;  // why
};

}  // namespace gpunode::compute
