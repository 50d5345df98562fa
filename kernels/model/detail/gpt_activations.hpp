// What GPT's forward pass leaves for its backward pass, one piece of device memory a slice under
// way, and the scratch of the latter, one piece a worker: divided here. The same division, run
// without memory, tells its size.
#pragma once

#include <vector>

#include "kernels/model/gpt.hpp"
#include "kernels/tensor/tensor.hpp"

namespace gpunode::model {

// Hands out consecutive parts of a piece of memory; with a null base it only counts.
class Carver {
 public:
  explicit Carver(float* base) : base_(base) {}
  tensor::Tensor take(tensor::Shape shape) {
    float* data = base_ ? base_ + used_ : nullptr;
    used_ += (static_cast<std::size_t>(shape.element_count()) + 15) / 16 * 16;
    return {data, shape};
  }
  std::size_t used_bytes() const { return used_ * sizeof(float); }

 private:
  float* base_;
  std::size_t used_ = 0;
};

struct GptBlockActivations {
  tensor::Tensor norm1, mean1, rstd1;  // (R, C), (R), (R) with R = samples * positions
  tensor::Tensor qkv;                  // (B, T, 3*C)
  tensor::Tensor probabilities;        // (B, H, T, padded_row(T)); absent in a session
  tensor::Tensor attended;             // (B, T, C)
  tensor::Tensor residual1;            // (R, C): the stream after attention
  tensor::Tensor norm2, mean2, rstd2;  // (R, C), (R), (R)
  tensor::Tensor expanded, activated;  // (R, F): before and after GELU
  tensor::Tensor residual2;            // (R, C): the stream after the block
};

struct GptActivations {
  tensor::Tensor embedded;  // (B, T, C)
  std::vector<GptBlockActivations> blocks;
  tensor::Tensor norm, mean, rstd;  // (R, C), (R), (R)
  tensor::Tensor logits;            // (R, V), becomes their gradient
  tensor::Tensor losses;            // (R)
  // Of the backward pass, but the slice's: it lives from one stage to the next.
  tensor::Tensor dstream;  // (R, C): gradient of the residual stream
};

struct GptScratch {
  tensor::Tensor dnorm;  // (R, C)
  tensor::Tensor dqkv;   // (B, T, 3*C)
};

// For `samples` (B) of `positions` (T) each.
GptActivations carve_activations(Carver& carver, const GptConfig& config, std::int64_t samples,
                                 std::int64_t positions);
GptScratch carve_scratch(Carver& carver, const GptConfig& config, std::int64_t samples,
                         std::int64_t positions);

// For a session that reads up to `positions` tokens at once: every block shares one set of
// activations, and scores are made for one token.
struct GptSessionActivations {
  tensor::Tensor embedded;
  GptBlockActivations block;
  tensor::Tensor norm, mean, rstd;  // (1, C), (1), (1)
};
GptSessionActivations carve_session(Carver& carver, const GptConfig& config,
                                    std::int64_t positions);

}  // namespace gpunode::model
