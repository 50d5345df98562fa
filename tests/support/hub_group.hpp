// Device groups of one process: what ranks send meets in a hub. Any backend's devices can be in one;
// spans go through host memory, by the device's own copies. It can be told to break after so many
// spans. For tests.
#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/ops/device_group.hpp"
#include "kernels/ops/lane.hpp"

namespace gpunode {

// What the ranks of one group have in common. Thread-safe.
class GroupHub {
 public:
  void break_after(std::size_t spans) { spans_left_ = spans; }
  std::size_t spans_moved() const { return spans_moved_; }

  void give_up(const std::string& reason) {
    std::lock_guard lock(mutex_);
    if (reason_.empty()) reason_ = reason;
    changed_.notify_all();
  }
  Result<void> send(std::uint16_t from, std::uint16_t to, Bytes bytes) {
    std::lock_guard lock(mutex_);
    if (spans_left_ && spans_moved_ >= *spans_left_ && reason_.empty())
      reason_ = "the test breaks the group";
    changed_.notify_all();
    if (!reason_.empty()) return {ErrorCode::unavailable, reason_};
    ++spans_moved_;
    lanes_[{from, to}].push_back(std::move(bytes));
    return {};
  }
  Result<Bytes> receive(std::uint16_t from, std::uint16_t to, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    std::deque<Bytes>& lane = lanes_[{from, to}];
    const bool here =
        changed_.wait_for(lock, timeout, [&] { return !lane.empty() || !reason_.empty(); });
    if (!here) return Error{ErrorCode::timeout, "nothing came"};
    if (!reason_.empty()) return Error{ErrorCode::unavailable, reason_};
    Bytes bytes = std::move(lane.front());
    lane.pop_front();
    return bytes;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::uint16_t, std::uint16_t>, std::deque<Bytes>> lanes_;  // from, to
  std::string reason_;                                                          // why it is broken
  std::optional<std::size_t> spans_left_;
  std::size_t spans_moved_ = 0;
};

class HubGroup final : public ops::DeviceGroup {
 public:
  HubGroup(GroupHub& hub, ops::Backend& backend, std::uint16_t rank)
      : hub_(hub), pool_(backend.memory(), std::size_t{1} << 30), rank_(rank) {
    auto lane = ops::Lane::open(backend, pool_);
    GPUNODE_CHECK(lane, "no lane");
    lane_.emplace(*std::move(lane));
  }

  Result<Bytes> invite() override { return Bytes(4); }
  Result<void> join(ByteView, std::uint16_t, std::uint16_t, std::chrono::milliseconds) override {
    return {};
  }
  Result<std::byte*> region(std::size_t bytes) override {
    if (auto grown = pool_.grow(region_, bytes); !grown) return grown.error();
    return region_.as<std::byte>();
  }
  Result<void> move(std::span<const ops::MovedSpan> sends, std::span<const ops::MovedSpan> receives,
                    std::chrono::milliseconds timeout) override {
    timeouts_.push_back(timeout);
    for (const ops::MovedSpan& one : sends) {
      Bytes bytes(one.bytes);
      auto done = lane_->download(region_.as<std::byte>() + one.offset, bytes);
      if (done) done = hub_.send(rank_, one.peer, std::move(bytes));
      if (!done) return done;
    }
    for (const ops::MovedSpan& one : receives) {
      auto bytes = hub_.receive(one.peer, rank_, timeout);
      if (!bytes) return bytes.error();
      GPUNODE_CHECK(bytes->size() == one.bytes, "the two sides of a span differ in length");
      auto done = lane_->upload(*bytes, region_.as<std::byte>() + one.offset);
      if (done) done = lane_->finish();
      if (!done) return done;
    }
    return {};
  }
  void give_up(const std::string& reason) override { hub_.give_up(reason); }
  // Of each move().
  const std::vector<std::chrono::milliseconds>& timeouts() const { return timeouts_; }

 private:
  GroupHub& hub_;
  std::vector<std::chrono::milliseconds> timeouts_;
  tensor::BufferPool pool_;
  std::uint16_t rank_;
  std::optional<ops::Lane> lane_;
  tensor::Buffer region_;
};

}  // namespace gpunode
