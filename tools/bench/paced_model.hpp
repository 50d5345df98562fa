// A model that computes nothing but takes its time: a stand-in for a device of its own, whose work
// costs the CPU nothing. Its layers are alike; a slice's forward of a layer takes 3 ms, its
// backward twice that.
#pragma once

#include <memory>

#include "kernels/model/model.hpp"

namespace gpunode::bench {

std::shared_ptr<const model::Model> make_paced_model();

}  // namespace gpunode::bench
