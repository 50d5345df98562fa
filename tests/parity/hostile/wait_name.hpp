// What a wait is called: the function that it stands in, as "model::GraphProgram::run". So a name stays
// as lines move, and a function of the product has one wait at most.
#pragma once

#include <string>

#include "kernels/tensor/stream.hpp"

namespace gpunode::hostile {

std::string wait_name(const tensor::WaitSite& site);

}  // namespace gpunode::hostile
