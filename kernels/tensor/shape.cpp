#include "kernels/tensor/shape.hpp"

namespace gpunode::tensor {

std::string Shape::text() const {
  std::string out = "(";
  for (int dimension = 0; dimension < rank_; ++dimension) {
    if (dimension) out += ", ";
    out += std::to_string(extents_[dimension]);
  }
  return out + ")";
}

}  // namespace gpunode::tensor
