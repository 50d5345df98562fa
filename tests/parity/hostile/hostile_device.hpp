// What the backend, its memory and its streams share: one device. Knows every call by name before it is
// queued, and keeps the first fault. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops/access.hpp"
#include "tests/parity/hostile/device_window.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"

namespace gpunode::hostile {

class HostileDevice;

class HostileStream final : public tensor::Stream {
 public:
  HostileStream(std::shared_ptr<HostileDevice> device, std::size_t number);
  ~HostileStream() override;
  Result<void> synchronise() override;

  HostileDevice& device() const { return *device_; }
  std::size_t number() const { return number_; }
  LateQueue& queue() { return *queue_; }

 private:
  std::shared_ptr<HostileDevice> device_;
  std::size_t number_;
  std::shared_ptr<LateQueue> queue_;
};

class HostileDevice : public std::enable_shared_from_this<HostileDevice> {
 public:
  HostileDevice(Options options, std::unique_ptr<DeviceWindow> window);

  // What a call is about to do: checked before it is queued.
  struct Call {
    std::string name;  // "layernorm"
    std::span<const ops::Access> accesses;
    std::string_view host_field = {};  // of a copy: which side is the host's
  };
  // Gives the call a number; "layernorm #12 on stream 1". Fails with: internal, as everything here
  // does: a fault of the caller.
  Result<std::string> enter(HostileStream& stream, const Call& call);
  // Keeps a fault; returns it as an error.
  Error fault(std::string text);
  Result<void> state() const;  // the first fault
  void release(const void* data);

  const Options& options() const { return options_; }
  DeviceWindow& window() { return *window_; }
  ops::Backend& cpu() { return *cpu_; }
  const ops::Operations& arithmetic() const { return arithmetic_; }
  std::size_t next_stream() { return streams_++; }
  Report report() const;
  // Under the lock.
  template <class Change>
  void count(Change change) {
    std::lock_guard lock(mutex_);
    change(report_);
  }

 private:
  const Options options_;
  const std::unique_ptr<DeviceWindow> window_;
  const std::unique_ptr<ops::Backend> cpu_;
  const ops::Operations arithmetic_;
  std::atomic<std::size_t> streams_{0};
  mutable std::mutex mutex_;
  Report report_;
  std::uint64_t calls_ = 0;
};

// The stream as one of this device's, or null.
HostileStream* own(tensor::Stream& stream);

}  // namespace gpunode::hostile
