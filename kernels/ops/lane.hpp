// A lane: what runs operations for one thread, a stream of the device and scratch memory. And how
// work is spread over several. Operations of one lane run in order; of different lanes in any. All
// is done, on the device too, when a spread returns, so who calls them needs no other ordering.
#pragma once

#include <functional>
#include <memory>

#include "kernels/ops/staging.hpp"
#include "kernels/tensor/buffer.hpp"
#include "kernels/tensor/workspace.hpp"

namespace gpunode::ops {

class Lane {
 public:
  // `pool` outlives the lane. Fails with: internal.
  static Result<Lane> open(Backend& backend, tensor::BufferPool& pool);

  Backend& backend() { return *backend_; }
  tensor::Stream& stream() { return *stream_; }
  tensor::Workspace& workspace() { return workspace_; }
  // A piece of at least so many floats, kept from call to call. Fails with: out_of_memory.
  Result<float*> scratch(std::size_t count);
  // Between host and device, in the stream's order, by way of page-locked memory.
  Result<void> upload(ByteView from, void* to) { return staging_.upload(*stream_, from, to); }
  Result<void> download(const void* from, MutableByteView to) {
    return staging_.download(*stream_, from, to);
  }
  Result<void> finish(tensor::WaitSite site = tensor::WaitSite::current()) {
    return stream_->synchronise(site);
  }

 private:
  Lane(Backend& backend, tensor::BufferPool& pool, std::unique_ptr<tensor::Stream> stream)
      : backend_(&backend),
        pool_(&pool),
        staging_(backend),
        stream_(std::move(stream)),
        workspace_(pool) {}

  Backend* backend_;
  tensor::BufferPool* pool_;
  Staging staging_;  // outlives what the stream has not done yet
  std::unique_ptr<tensor::Stream> stream_;
  tensor::Workspace workspace_;
  tensor::Buffer scratch_{};
};

using LaneTask = std::function<Result<void>(Lane& lane, std::size_t index)>;
// Runs task(lane, 0) .. task(lane, count-1), in any order and on any threads, and returns when all
// are done. Fails with: what a task or the device failed with.
using Spread = std::function<Result<void>(std::size_t count, const LaneTask& task)>;
// The calling thread does them all, in order, on this lane, which outlives the result.
Spread serial(Lane& lane);

// What a task handles at once, where it may choose: on a device a lot, as each call costs; where
// the host computes as little as still outweighs handing it to a thread.
inline std::size_t grain(const Backend& backend, std::size_t host_grain) {
  return backend.capabilities().host_accessible ? host_grain : std::size_t{1} << 40;
}

// These values in the device's memory. Fails with: out_of_memory, internal.
Result<tensor::Buffer> place(Lane& lane, tensor::BufferPool& pool, std::span<const float> values);

}  // namespace gpunode::ops
