// Where a model's weights lie in one piece of memory when it only answers, in the order of
// Model::parameters(): in fp32 the flat vector, else an image in which each parameter has a format of its
// own (ops/weight_format.hpp; biases and norms stay fp32). Pure.
#pragma once

#include "kernels/model/model.hpp"
#include "kernels/ops/weight_format.hpp"

namespace gpunode::model {

struct WeightLayout {
  struct Place {
    std::size_t first = 0;  // byte
    ops::WeightFormat format = ops::WeightFormat::fp32;
    std::int64_t inner = 0;  // numbers of a row
    std::size_t bytes = 0;   // 0: of another part of the model (decoder_part.hpp)
  };
  ops::WeightFormat format = ops::WeightFormat::fp32;  // that was asked for
  std::vector<Place> places;                           // by parameter
  std::size_t bytes = 0;                               // of all
};

// Of a model that can only be in fp32: the flat vector.
WeightLayout flat_layout(const Model& model);

// One parameter into its place in the image, of which `image` is the whole. Fails with:
// invalid_argument (a number that the format does not hold; the parameter is named).
Result<void> place_parameter(const Model& model, const WeightLayout& layout, std::size_t parameter,
                             std::span<const float> values, MutableByteView image);

}  // namespace gpunode::model
