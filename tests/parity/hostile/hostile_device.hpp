// What the backend, its memory and its streams share: one device. Knows every call by name before it is
// queued, and keeps the first fault. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops/access.hpp"
#include "tests/parity/hostile/access_ledger.hpp"
#include "tests/parity/hostile/device_window.hpp"
#include "tests/parity/hostile/host_copies.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"

namespace gpunode::hostile {

class HostileDevice;

// A call that was noted to be made later, at any time.
struct NotedCall {
  std::string name;  // "layernorm"
  std::vector<ops::Access> accesses;
  std::function<void(const std::string& name)> work;  // "layernorm #12 on stream 1"
  std::uint64_t Report::*counter;
};

class HostileStream final : public tensor::Stream {
 public:
  explicit HostileStream(std::shared_ptr<HostileDevice> device);
  ~HostileStream() override;
  Result<void> synchronise(tensor::WaitSite site = tensor::WaitSite::current()) override;

  HostileDevice& device() const { return *device_; }
  std::size_t number() const { return number_; }
  LateQueue& queue() { return *queue_; }
  const std::shared_ptr<LateQueue>& shared_queue() const { return queue_; }
  const std::shared_ptr<HostileDevice>& shared_device() const { return device_; }
  const std::shared_ptr<HostCopies>& copies() const { return copies_; }
  // Where calls are noted instead of being made; null: they are made.
  void note_into(std::vector<NotedCall>* noted) { noted_ = noted; }
  bool is_noting() const { return noted_ != nullptr; }
  // Makes the call behind those before it, or notes it. Fails with: internal.
  Result<void> make(NotedCall call);

 private:
  std::shared_ptr<HostileDevice> device_;
  std::size_t number_;
  std::shared_ptr<LateQueue> queue_;
  std::shared_ptr<HostCopies> copies_ = std::make_shared<HostCopies>();
  std::vector<NotedCall>* noted_ = nullptr;
};

class HostileEvent final : public tensor::Event {
 public:
  explicit HostileEvent(HostileStream& stream);
  Result<void> synchronise(tensor::WaitSite site = tensor::WaitSite::current()) override;
  // What the stream queues from now on runs after this event.
  void hold(HostileStream& stream) const;

 private:
  std::shared_ptr<HostileDevice> device_;
  std::shared_ptr<LateQueue> queue_;
  std::shared_ptr<HostCopies> copies_;
  bool is_noted_;         // recorded among noted work, which no device can wait for
  std::uint64_t number_;  // of the last piece of work before it
  Clock clock_;
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
  Error fault(std::string text, ErrorCode code = ErrorCode::internal);
  Result<void> state() const;  // the first fault
  void release(const void* data, std::size_t bytes);
  Result<void> host_reads(ByteView bytes);
  enum class Waiter { host, stream };
  // Counts the wait. False: it is the one that was removed.
  bool waits(Waiter waiter, const tensor::WaitSite& site);

  const Options& options() const { return options_; }
  DeviceWindow& window() { return *window_; }
  ops::Backend& cpu() { return *cpu_; }
  const ops::Operations& arithmetic() const { return arithmetic_; }
  // Under the lock.
  template <class Work>
  auto with_ledger(Work work) {
    std::lock_guard lock(mutex_);
    return work(ledger_);
  }
  Report report() const;
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
  mutable std::mutex mutex_;
  AccessLedger ledger_;
  Report report_;
  ErrorCode first_code_ = ErrorCode::internal;
  std::uint64_t calls_ = 0;

  std::string text_of(const AccessLedger::Conflict& conflict, const std::string& call) const;
};

// The stream as one of this device's, or null.
HostileStream* own(tensor::Stream& stream);

}  // namespace gpunode::hostile
