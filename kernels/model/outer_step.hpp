// The outer step of local training: members change their weights alone for a while, and the mean of
// their changes is taken as a gradient by Nesterov's momentum. Plain code with one order of
// operations, so that every machine gets the same bits; it runs once a round.
// Source: Douillard and others, "DiLoCo: Distributed Low-Communication Training of Language
// Models", 2023.
#pragma once

#include <cstddef>
#include <span>

namespace gpunode::model {

struct OuterStep {
  float scale = 1;    // of the summed changes: 1 / slices
  float rate = 0.7f;  // how far the mean change is followed
  float momentum = 0.9f;
  // Elements from here on are buffers (ParameterKind): they take the mean change as it is.
  std::size_t trained_count = ~std::size_t{0};
};

// changes: start minus end, summed. velocity: updated with the weights.
//   g = scale * change;  v = momentum * v + g;  w = w - rate * (g + momentum * v)
// False if a change is not finite: nothing is written then.
bool apply_outer_step(const OuterStep& step, std::span<const float> changes,
                      std::span<float> weights, std::span<float> velocity);

}  // namespace gpunode::model
