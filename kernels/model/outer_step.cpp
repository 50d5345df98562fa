#include "kernels/model/outer_step.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/base/check.hpp"

namespace gpunode::model {

bool apply_outer_step(const OuterStep& step, std::span<const float> changes,
                      std::span<float> weights, std::span<float> velocity) {
  GPUNODE_CHECK(changes.size() == weights.size() && changes.size() == velocity.size(),
                "outer step: sizes differ");
  if (!std::ranges::all_of(changes, [](float value) { return std::isfinite(value); })) return false;
  const std::size_t trained = std::min(step.trained_count, changes.size());
  for (std::size_t i = trained; i < changes.size(); ++i) weights[i] -= step.scale * changes[i];
  for (std::size_t i = 0; i < trained; ++i) {
    const float change = step.scale * changes[i];
    velocity[i] = step.momentum * velocity[i] + change;
    weights[i] -= step.rate * (change + step.momentum * velocity[i]);
  }
  return true;
}

}  // namespace gpunode::model
