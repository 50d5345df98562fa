// What GPT's forward pass leaves for its backward pass, one piece of device memory a slice under
// way, and the scratch of the latter, one piece a worker: divided here. The same division, run
// without memory, tells its size.
#pragma once

#include <vector>

#include "kernels/model/gpt.hpp"
#include "kernels/tensor/buffer.hpp"
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

// Divides `memory` by `carve(carver)`, after it was made large enough: the division runs twice.
// Fails with: out_of_memory.
template <class Carve>
Result<void> carve_into(tensor::Buffer& memory, tensor::BufferPool& pool, const Carve& carve) {
  Carver count(nullptr);
  carve(count);
  if (auto grown = pool.grow(memory, count.used_bytes()); !grown) return grown;
  Carver carver(memory.as<float>());
  carve(carver);
  return {};
}

struct GptNorm {
  tensor::Tensor out, mean, rstd;  // (R, C), (R), (R) with R = samples * positions
};

struct GptBlockActivations {
  GptNorm norm1;
  tensor::Tensor qkv;            // (B, T, 3*C)
  tensor::Tensor probabilities;  // (B, H, T, padded_row(T)); absent in a session
  tensor::Tensor attended;       // (B, T, C)
  tensor::Tensor residual1;      // (R, C): the stream after attention
  GptNorm norm2;
  tensor::Tensor expanded, activated;  // (R, F): before and after GELU
  tensor::Tensor residual2;            // (R, C): the stream after the block
};

struct GptActivations {
  tensor::Tensor embedded;  // (B, T, C)
  std::vector<GptBlockActivations> blocks;
  GptNorm norm;
  tensor::Tensor logits;  // (R, V), becomes their gradient
  tensor::Tensor losses;  // (R)
  // Of the backward pass, but the slice's: it lives from one stage to the next.
  tensor::Tensor dstream;  // (R, C): gradient of the residual stream
};

struct GptScratch {
  tensor::Tensor dnorm;  // (R, C)
  tensor::Tensor dqkv;   // (B, T, 3*C)
};

// For `samples` (B) of config.context positions (T) each.
GptActivations carve_activations(Carver& carver, const GptConfig& config, std::int64_t samples);
GptScratch carve_scratch(Carver& carver, const GptConfig& config, std::int64_t samples);

// For a session that reads `positions` tokens at once: every block shares the one set of
// activations, and the last norm is of one token. No logits, losses and gradient.
GptActivations carve_session(Carver& carver, const GptConfig& config, std::int64_t positions);

}  // namespace gpunode::model
