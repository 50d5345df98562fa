#include "actors/compute/device_peak.hpp"

#include <algorithm>

#include "actors/compute/device.hpp"

namespace gpunode::compute {
namespace {

// Rows and columns of the matrices: what a core's cache holds; enough for a GPU's every unit.
constexpr std::int64_t kHostSide = 512, kDeviceSide = 4096;
constexpr int kRuns = 4;  // the first warms up

// Each worker's two operands and its result, one behind the other.
Result<std::vector<tensor::Buffer>> make_operands(Device& device, int workers, std::int64_t side) {
  const auto count = static_cast<std::size_t>(side * side);
  std::vector<float> values(2 * count);
  for (std::size_t at = 0; at < values.size(); ++at)
    values[at] = static_cast<float>(at % 1021) / 1021 - 0.5f;
  std::vector<tensor::Buffer> all;
  for (int worker = 0; worker < workers; ++worker) {
    auto operands = device.floats(3 * count);
    if (!operands) return operands.error();
    all.push_back(*std::move(operands));
    if (auto done = device.to_device(worker, values, all.back().as<float>()); !done)
      return done.error();
  }
  return all;
}

Result<double> fastest_product(ops::Backend& backend, int workers, const Clock& clock) {
  const bool host = backend.device().kind == tensor::DeviceKind::cpu;
  const std::int64_t side = host ? kHostSide : kDeviceSide;
  const auto count = static_cast<std::size_t>(side * side);
  WorkerPool pool(workers);
  auto device = Device::open(backend, pool);
  if (!device) return device.error();
  auto operands = make_operands(**device, workers, side);
  if (!operands) return operands.error();
  const auto seconds_of = [&]() -> Result<double> {
    const Time begin = clock.now();
    auto done = (*device)->spread()(
        static_cast<std::size_t>(workers), [&](ops::Lane& lane, std::size_t index) {
          float* const a = (*operands)[index].as<float>();
          return backend.operations().matmul(lane.stream(), lane.workspace(),
                                             {.a = {a, {side, side}},
                                              .b = {a + count, {side, side}},
                                              .c = {a + 2 * count, {side, side}},
                                              .transpose_b = true});
        });
    if (!done) return done.error();
    return std::chrono::duration<double>(clock.now() - begin).count();
  };
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const auto seconds = seconds_of();
    if (!seconds) return seconds.error();
    if (run > 0 && *seconds > 0) best = best == 0 ? *seconds : std::min(best, *seconds);
  }
  const double flops = 2.0 * static_cast<double>(count) * static_cast<double>(side) * workers;
  return best > 0 ? flops / best : 0;
}

}  // namespace

Result<void> measure_peak(DeviceUse& use, int workers, const Clock& clock) {
  auto peak =
      use.run([&] { return fastest_product(use.device().backend(), std::max(1, workers), clock); });
  if (!peak) return peak.error();
  use.device().note_peak(*peak);
  return {};
}

}  // namespace gpunode::compute
