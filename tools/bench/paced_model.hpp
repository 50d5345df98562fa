// A model that computes nothing but takes its time: a stand-in for a device of its own, whose work
// costs the CPU nothing. Its layers are alike; a slice's forward of a layer takes `layer`, its
// backward twice that.
#pragma once

#include <memory>

#include "kernels/model/model.hpp"
#include "runtime/base/clock.hpp"

namespace gpunode::bench {

struct PacedModelOptions {
  std::size_t layers = 12;
  std::size_t parameters_a_layer = 500'000;
  Duration layer = std::chrono::milliseconds(3);
};

std::shared_ptr<const model::Model> make_paced_model(PacedModelOptions options);

}  // namespace gpunode::bench
