#include "actors/compute/device.hpp"

#include <algorithm>
#include <mutex>

#include "kernels/model/model.hpp"
#include "runtime/base/block_digest.hpp"

namespace gpunode::compute {

namespace {

// Elements of a sum that are added at once: on the CPU so many stay in the cache.
constexpr std::size_t kHostBlockElements = 4096;

// out = inputs[0] + inputs[1] (+ ...), left to right; the first failure is kept.
collective::AddFn add_on(ops::Lane& lane, Result<void>& done) {
  return [&](float* out, std::span<const float* const> inputs, std::size_t count) {
    const tensor::Shape shape{static_cast<std::int64_t>(count)};
    if (inputs.size() == 1 && done && out != inputs[0])
      done = lane.backend().copy(lane.stream(), inputs[0], out, count * sizeof(float));
    const float* left = inputs[0];
    for (std::size_t i = 1; i < inputs.size() && done; ++i) {
      done = lane.backend().operations().add(
          lane.stream(), lane.workspace(),
          {.a = {left, shape}, .b = {inputs[i], shape}, .c = {}, .out = {out, shape}});
      left = out;
    }
  };
}

}  // namespace

Device::Device(ops::Backend& backend, WorkerPool& workers)
    : backend_(backend),
      workers_(workers),
      pool_(std::make_unique<tensor::BufferPool>(backend.memory(),
                                                 backend.capabilities().memory_bytes)) {}

Result<std::unique_ptr<Device>> Device::open(ops::Backend& backend, WorkerPool& workers) {
  std::unique_ptr<Device> device(new Device(backend, workers));
  for (int lane = 0; lane <= workers.workers(); ++lane) {
    auto opened = ops::Lane::open(backend, *device->pool_);
    if (!opened) return opened.error();
    device->lanes_.push_back(*std::move(opened));
  }
  return device;
}

ops::Spread Device::spread() {
  return [this](std::size_t count, const ops::LaneTask& task) -> Result<void> {
    std::mutex mutex;
    Result<void> first;
    const auto note = [&](const Result<void>& done) {
      if (done) return;
      std::lock_guard lock(mutex);
      if (first) first = done;
    };
    workers_.run(count, [&](int worker, std::size_t index) { note(task(lane(worker), index)); });
    for (int worker = 0; worker < workers_.workers(); ++worker) note(lane(worker).finish());
    return first;
  };
}

Result<tensor::Buffer> Device::floats(std::size_t count) {
  return pool_->take(count * sizeof(float));
}

Result<SharedSum> Device::make_sum(std::shared_ptr<std::vector<float>> host,
                                   std::size_t parameters) {
  auto sum = std::make_shared<Sum>(Sum{.host = std::move(host), .home = this});
  if (shares_memory()) return sum;
  auto memory = floats(parameters + model::kTailElements);
  if (!memory) return memory.error();
  sum->device = *std::move(memory);
  sum->host_is_current = false;
  return sum;
}

Result<void> Device::sum(int worker, const collective::SumProgram& program,
                         std::span<const float* const> inputs, float* out, std::size_t count) {
  ops::Lane& own = lane(worker);
  Result<void> done;
  if (const auto copied = program.copied_input()) {
    if (out != inputs[*copied])
      done = backend_.copy(own.stream(), inputs[*copied], out, count * sizeof(float));
  } else {
    const std::size_t block = std::min(count, ops::grain(backend_, kHostBlockElements));
    auto scratch = own.scratch(std::max<std::size_t>(1, program.scratch_count() * block));
    if (!scratch) return scratch.error();
    program.run_blocks(inputs, out, count, add_on(own, done), *scratch,
                       std::max<std::size_t>(1, block));
  }
  return done ? own.finish() : done;
}

Result<void> Device::add(int worker, std::span<const float* const> inputs, std::span<float> out) {
  Result<void> done;
  add_on(lane(worker), done)(out.data(), inputs, out.size());
  return done ? lane(worker).finish() : done;
}

void Device::sum_tails(const collective::SumProgram& program, std::span<const float* const> inputs,
                       std::span<float> out) {
  std::vector<float> scratch;
  const auto add = [](float* to, std::span<const float* const> from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      float total = from[0][i];
      for (std::size_t k = 1; k < from.size(); ++k) total += from[k][i];
      to[i] = total;
    }
  };
  program.run(inputs, out.data(), out.size(), add, scratch);
}

Result<void> Device::read(int worker, const void* from, MutableByteView bytes) {
  return lane(worker).download(from, bytes);
}

Result<void> Device::copy(int worker, const void* from, void* to, std::size_t bytes) {
  return backend_.copy(lane(worker).stream(), from, to, bytes);
}

Result<void> Device::write(int worker, ByteView bytes, void* to) {
  auto done = lane(worker).upload(bytes, to);
  return done ? lane(worker).finish() : done;
}

Result<void> Device::bring_to_host(Sum& sum) {
  std::lock_guard lock(guests_);
  if (sum.host_is_current) return {};
  const std::size_t count = sum.host->size() - model::kTailElements;
  auto done = to_host(workers_.workers(), sum.place(), std::span(*sum.host).first(count));
  sum.host_is_current = done.has_value();
  return done;
}

Result<SharedSum> Device::adopt(int worker, const SharedSum& sum) {
  if (sum->home == this) return sum;
  if (auto there = sum->home->bring_to_host(*sum); !there) return there.error();
  const std::size_t count = sum->host->size() - model::kTailElements;
  auto made = make_sum(sum->host, count);
  if (!made) return made;
  auto copied = to_device(worker, std::span(*sum->host).first(count), (*made)->place());
  if (!copied) return copied.error();
  (*made)->host_is_current = true;
  return made;
}

Result<void> Device::digest_sum(Sum& sum, std::span<Digest> out) {
  const std::size_t count = sum.host->size() - model::kTailElements;
  const std::span<const float> tail = std::span(*sum.host).subspan(count);
  if (auto done = to_device(0, tail, sum.place() + count); !done) return done;
  return digest_blocks(
      lane(0), {reinterpret_cast<const std::byte*>(sum.place()), sum.host->size() * sizeof(float)},
      out);
}

Result<void> Device::clear(int worker, std::span<float> values) {
  return backend_.clear(lane(worker).stream(), values.data(), values.size_bytes());
}

Result<void> Device::digest_blocks(ops::Lane& lane, ByteView bytes, std::span<Digest> out) {
  std::vector<std::uint64_t> words(2 * out.size());
  const std::size_t size = words.size() * sizeof(std::uint64_t);
  std::uint64_t* place = words.data();
  if (!shares_memory()) {
    auto scratch = lane.scratch(size / sizeof(float));
    if (!scratch) return scratch.error();
    place = reinterpret_cast<std::uint64_t*>(*scratch);
  }
  auto done = backend_.operations().block_digest(
      lane.stream(), lane.workspace(),
      {.in = bytes, .block_bytes = kDigestBlockBytes, .out = place});
  if (done && place != words.data())
    done = backend_.download(lane.stream(), place, std::as_writable_bytes(std::span(words)));
  if (done) done = lane.finish();
  if (!done) return done;
  for (std::size_t block = 0; block < out.size(); ++block)
    out[block] = {words[2 * block], words[2 * block + 1]};
  return {};
}

}  // namespace gpunode::compute
