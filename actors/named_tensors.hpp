// A model's parameters as they lie in memory, one after the other, seen as the named tensors of a
// snapshot. Shared by who writes checkpoints and who reads them; costs a small record a parameter.
#pragma once

#include <span>

#include "kernels/model/model.hpp"
#include "runtime/snapshot/state_view.hpp"

namespace gpunode {

// State: snapshot::StateView or StateTarget, by what Float is. Moments may be left out.
template <class State, class Float>
State named_tensors(const model::Model& model, std::span<Float> weights,
                    std::span<Float> first_moments = {}, std::span<Float> second_moments = {}) {
  State state;
  std::size_t at = 0;
  for (const model::ParameterSpec& spec : model.parameters()) {
    const auto part = [&, count = spec.element_count()](std::span<Float> all) {
      return all.empty() ? all : all.subspan(at, count);
    };
    state.parameters.push_back({spec.name,
                                {spec.shape.begin(), spec.shape.end()},
                                part(weights),
                                part(first_moments),
                                part(second_moments)});
    at += spec.element_count();
  }
  return state;
}

}  // namespace gpunode
