// A model of two layers that share a weight, with a pause between them: what the passes over a
// graph are tried on.
#pragma once

#include "kernels/graph/builder.hpp"

namespace gpunode::graph {

inline Graph small_model(std::int64_t samples = 2, std::int64_t channels = 8) {
  Builder g({.samples = samples, .positions = 4});
  const ValueId tokens = g.input("tokens", Dtype::i32, {4});
  const ValueId targets = g.input("targets", Dtype::i32, {4});
  const ValueId table = g.parameter("table", {16, channels}, normal(1));
  const ValueId places = g.parameter("places", {4, channels}, normal(1));
  ValueId x = g.embedding(tokens, table, places);
  g.pause();
  const ValueId wide = g.parameter("wide", {1024, channels}, normal(1));
  const ValueId back = g.parameter("back", {channels, 1024}, normal(1));
  const ValueId bias = g.parameter("bias", {channels}, constant(0));
  x = g.add(x, g.linear(g.gelu(g.linear(x, wide)), back, bias));
  g.pause();
  const ValueId weight = g.parameter("norm", {channels}, constant(1));
  const ValueId shift = g.parameter("shift", {channels}, constant(0));
  g.predict(g.linear(g.layernorm(x, weight, shift), table), targets);
  return *g.finish();
}

}  // namespace gpunode::graph
