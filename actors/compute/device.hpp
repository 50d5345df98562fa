// The device that a trainer computes on, as the trainer's parts use it: floats in its memory, sums
// along the job's tree, and the ways to host memory and back. Where the host shares that memory
// (the CPU) a range there is host memory, and nothing is copied. Each thread of the trainer has a
// lane; every call but clear() and copy() waits for what it started, so the trainer's threads order
// the device's work by ordering themselves. Fails, where it fails, with: out_of_memory, internal.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "actors/compute/worker_pool.hpp"
#include "kernels/ops/lane.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/collective/sum_program.hpp"

namespace gpunode::compute {

class Device;

// A sum as long as the gradient, and what follows the parameters (the loss): where it was computed,
// and in host memory, from which it travels.
struct Sum {
  std::shared_ptr<std::vector<float>> host;
  // The parameters, and room for what follows; none where `host` is the device's memory.
  tensor::Buffer device{};
  bool host_is_current = true;  // else the parameters are on the device alone
  Device* home = nullptr;       // where it is

  float* place() const { return device.data() ? device.as<float>() : host->data(); }
};
using SharedSum = std::shared_ptr<Sum>;

class Device {
 public:
  // A lane for each worker, and one for other devices' threads. Backend and workers outlive it.
  static Result<std::unique_ptr<Device>> open(ops::Backend& backend, WorkerPool& workers);

  ops::Backend& backend() { return backend_; }
  bool shares_memory() const { return backend_.capabilities().host_accessible; }
  tensor::BufferPool& pool() { return *pool_; }
  ops::Lane& lane(int worker) { return lanes_[static_cast<std::size_t>(worker)]; }
  // Over all workers. One caller, none of the workers.
  ops::Spread spread();

  Result<tensor::Buffer> floats(std::size_t count);
  // Room for a sum whose host vector is `host` and which has so many parameters.
  Result<SharedSum> make_sum(std::shared_ptr<std::vector<float>> host, std::size_t parameters);
  // This sum here: itself, or one beside it that has the same host vector, of which the other
  // device's became the copy. From any thread.
  Result<SharedSum> adopt(int worker, const SharedSum& sum);

  // The sum of `program`, whose inputs lie in the device's memory, as `out` does.
  Result<void> sum(int worker, const collective::SumProgram& program,
                   std::span<const float* const> inputs, float* out, std::size_t count);
  // out = inputs[0] + inputs[1] (+ inputs[2] ...), left to right; `out` may be one of them.
  Result<void> add(int worker, std::span<const float* const> inputs, std::span<float> out);
  // Vectors of the host, of equal length.
  static void sum_tails(const collective::SumProgram& program, std::span<const float* const> inputs,
                        std::span<float> out);
  // Between device and host; nothing is done where both are the same place.
  Result<void> to_host(int worker, const float* from, std::span<float> to) {
    return from == to.data() ? Result<void>() : read(worker, from, std::as_writable_bytes(to));
  }
  // On a lane of its own, so from any thread. One at a time for one sum.
  Result<void> bring_to_host(Sum& sum);
  Result<void> to_device(int worker, std::span<const float> from, float* to) {
    return from.data() == to ? Result<void>() : write(worker, std::as_bytes(from), to);
  }
  // Inside its memory, before what this worker does next, which waits for both; the ranges do not
  // overlap.
  Result<void> copy(int worker, const void* from, void* to, std::size_t bytes);
  Result<void> write(int worker, ByteView bytes, void* to);
  Result<void> read(int worker, const void* from, MutableByteView bytes);
  // Digests of the blocks of the whole vector, as block_digest.hpp has them: by the first worker.
  Result<void> digest_sum(Sum& sum, std::span<Digest> out);
  // What this worker does next comes behind this.
  Result<void> follow(int worker, const tensor::Event& event) {
    return backend_.wait(lane(worker).stream(), event);
  }
  // Before what this worker does next, which waits for both.
  Result<void> clear(int worker, std::span<float> values);
  // Digests of consecutive blocks of the device's memory, as block_digest.hpp has them.
  Result<void> digest_blocks(ops::Lane& lane, ByteView bytes, std::span<Digest> out);

 private:
  Device(ops::Backend& backend, WorkerPool& workers);

  ops::Backend& backend_;
  WorkerPool& workers_;
  std::unique_ptr<tensor::BufferPool> pool_;
  std::vector<ops::Lane> lanes_;  // by worker, and the guests'
  std::mutex guests_;             // who uses the last lane
};

}  // namespace gpunode::compute
