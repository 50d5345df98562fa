#include "actors/compute/device_peak.hpp"

#include <algorithm>

#include "actors/compute/device.hpp"

namespace gpunode::compute {
namespace {

// Rows and columns of the matrices: what a core's cache holds; enough for a GPU's every unit.
constexpr std::int64_t kHostSide = 512, kDeviceSide = 4096;
constexpr int kRuns = 4;  // the first warms up

tensor::ConstTensor right_of(const tensor::Buffer& operands, std::int64_t side) {
  return {operands.as<float>() + side * side, {side, side}};
}
MutableByteView packed_of(const tensor::Buffer& operands, std::int64_t side) {
  return {reinterpret_cast<std::byte*>(operands.as<float>() + 3 * side * side),
          ops::packed_bytes(side, side)};
}

// Each worker's two operands and its result, one behind the other, and the right operand as
// products in bf16 read it.
Result<std::vector<tensor::Buffer>> make_operands(Device& device, int workers, std::int64_t side,
                                                  Precision precision) {
  const auto count = static_cast<std::size_t>(side * side);
  std::vector<float> values(2 * count);
  for (std::size_t at = 0; at < values.size(); ++at)
    values[at] = static_cast<float>(at % 1021) / 1021 - 0.5f;
  std::vector<tensor::Buffer> all;
  for (int worker = 0; worker < workers; ++worker) {
    auto operands = device.floats(4 * count);
    if (!operands) return operands.error();
    all.push_back(*std::move(operands));
    if (auto done = device.to_device(worker, values, all.back().as<float>()); !done)
      return done.error();
    if (precision != Precision::bf16) continue;
    auto packed = device.spread()(1, [&](ops::Lane& lane, std::size_t) {
      return device.backend().operations().pack_product(lane.stream(), lane.workspace(),
                                                        {.b = right_of(all.back(), side),
                                                         .transpose_b = true,
                                                         .out = packed_of(all.back(), side)});
    });
    if (!packed) return packed.error();
  }
  return all;
}

Result<double> fastest_product(ops::Backend& backend, int workers, Precision precision,
                               const Clock& clock) {
  const bool host = backend.device().kind == tensor::DeviceKind::cpu;
  const std::int64_t side = host ? kHostSide : kDeviceSide;
  const auto count = static_cast<std::size_t>(side * side);
  WorkerPool pool(workers);
  auto device = Device::open(backend, pool);
  if (!device) return device.error();
  auto operands = make_operands(**device, workers, side, precision);
  if (!operands) return operands.error();
  const bool in_bf16 = precision == Precision::bf16;
  const std::size_t workspace_bytes =
      in_bf16 ? ops::product_workspace_bytes({.rows = side, .columns = side, .inner = side}) : 0;
  const auto seconds_of = [&]() -> Result<double> {
    const Time begin = clock.now();
    auto done = (*device)->spread()(
        static_cast<std::size_t>(workers), [&](ops::Lane& lane, std::size_t index) {
          float* const a = (*operands)[index].as<float>();
          if (auto done = lane.workspace().reserve(workspace_bytes); !done) return done;
          return backend.operations().matmul(
              lane.stream(), lane.workspace(),
              {.a = {a, {side, side}},
               .b = right_of((*operands)[index], side),
               .c = {a + 2 * count, {side, side}},
               .transpose_b = true,
               .precision = precision,
               .packed_b = in_bf16 ? packed_of((*operands)[index], side) : MutableByteView{}});
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

Result<void> measure_peak(DeviceUse& use, int workers, Precision precision, const Clock& clock) {
  auto peak = use.run([&] {
    return fastest_product(use.device().backend(), std::max(1, workers), precision, clock);
  });
  if (!peak) return peak.error();
  use.device().note_peak(precision, *peak);
  return {};
}

}  // namespace gpunode::compute
