// A model's parameters as they lie in memory, one after the other, seen as the named tensors of a
// snapshot. Shared by who writes checkpoints and who reads them; costs a small record a parameter.
#pragma once

#include <span>

#include "kernels/model/model.hpp"
#include "runtime/snapshot/state_view.hpp"

namespace gpunode {

// `state`: the weights, or the weights, the first and the second moments; each parameter_count()
// long.
template <class Float>
snapshot::StateOf<Float> named_tensors(const model::Model& model, std::span<Float> state) {
  const std::size_t count = model.parameter_count();
  snapshot::StateOf<Float> tensors;
  std::size_t at = 0;
  for (const model::ParameterSpec& spec : model.parameters()) {
    auto& one = tensors.parameters.emplace_back();
    one.name = spec.name;
    one.shape.assign(spec.shape.begin(), spec.shape.end());
    for (std::size_t part = 0; part * count < state.size(); ++part)
      one.parts[part] = state.subspan(part * count + at, spec.element_count());
    at += spec.element_count();
  }
  return tensors;
}

}  // namespace gpunode
