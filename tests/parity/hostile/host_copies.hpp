// Copies between a device and the host's memory that have not run yet. Where a wait for one was
// removed, the owner of that memory may give it away at any time: from then on the copy works with a
// memory of its own, and what the host saw at that moment stays what it sees. Thread-safe.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/digest.hpp"

namespace gpunode::hostile {

struct HostCopy {
  HostCopy(ByteView source, bool stays)
      : from(source), memory_stays(stays), digest(digest_of(source)) {}
  HostCopy(MutableByteView destination, bool stays) : to(destination), memory_stays(stays) {}

  void read_host(void* device) const { std::memcpy(device, from.data(), from.size()); }
  void write_host(const void* device) const {
    if (!to.empty()) std::memcpy(to.data(), device, to.size());
  }

  ByteView from = {};
  MutableByteView to = {};
  bool memory_stays = false;  // its owner does not give it away: page-locked memory
  Digest digest = {};         // of the source, as it was when the copy was queued
  std::uint64_t number = 0;   // in the stream's queue
  Bytes kept = {};            // of the source
};

class HostCopies {
 public:
  void add(std::shared_ptr<HostCopy> copy, std::uint64_t number) {
    std::lock_guard lock(mutex_);
    copy->number = number;
    waiting_.push_back(std::move(copy));
  }
  // The copy's turn.
  void run(const HostCopy& copy, const std::function<void(const HostCopy&)>& work) {
    std::lock_guard lock(mutex_);
    work(copy);
    std::erase_if(waiting_, [&](const auto& one) { return one.get() == &copy; });
  }
  // Of the copies up to this number, those that wait.
  void leave_host_alone(std::uint64_t last) {
    std::lock_guard lock(mutex_);
    for (const auto& copy : waiting_) {
      if (copy->number > last || !copy->kept.empty() || copy->memory_stays) continue;
      copy->to = {};
      copy->kept.assign(copy->from.begin(), copy->from.end());
      copy->from = copy->kept;
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<HostCopy>> waiting_;
};

}  // namespace gpunode::hostile
