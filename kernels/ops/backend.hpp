// Backend: one device and the table of operations it has. kernels/cpu fills the whole table and is
// the definition of right; kernels/cuda fills what it has a twin for. An empty entry means that the
// device cannot do it; a node then takes another backend (actors/node/node.cpp). Concrete backends
// are named only there, in examples, benchmarks and tests. A backend may be used by many threads, a
// stream and a workspace by one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops/adamw.hpp"
#include "kernels/ops/add.hpp"
#include "kernels/ops/attention.hpp"
#include "kernels/ops/cross_entropy.hpp"
#include "kernels/ops/embedding.hpp"
#include "kernels/ops/gelu.hpp"
#include "kernels/ops/layernorm.hpp"
#include "kernels/ops/matmul.hpp"
#include "kernels/ops/wire_forms.hpp"
#include "kernels/tensor/buffer.hpp"
#include "kernels/tensor/device.hpp"
#include "kernels/tensor/stream.hpp"

namespace gpunode::ops {

struct Operations {
  MatmulFn matmul = nullptr;
  LayernormFn layernorm = nullptr;
  LayernormBackwardFn layernorm_backward = nullptr;
  GeluFn gelu = nullptr;
  GeluBackwardFn gelu_backward = nullptr;
  AttentionFn attention = nullptr;
  AttentionBackwardFn attention_backward = nullptr;
  AttentionCachedFn attention_cached = nullptr;
  EmbeddingFn embedding = nullptr;
  EmbeddingBackwardFn embedding_backward = nullptr;
  CrossEntropyFn cross_entropy = nullptr;
  AddFn add = nullptr;
  ColumnSumFn column_sum = nullptr;
  AdamwFn adamw = nullptr;
  SquareSumFn square_sum = nullptr;
  // For the exchange, on host memory; no model needs them.
  PackFn pack_bf16 = nullptr, pack_int8 = nullptr, pack_top = nullptr;
  PackCarryingFn pack_int8_carrying = nullptr;
  UnpackFn unpack_bf16 = nullptr, unpack_int8 = nullptr, unpack_top = nullptr;

  // Names of the empty entries among those that models need.
  std::vector<std::string_view> missing() const;
};

struct Capabilities {
  std::string instruction_set;     // "avx512", "avx2", "portable", "sm_90"
  std::string library;             // "oneDNN 2.6.3", "cuBLASLt 13.0"
  std::uint64_t memory_bytes = 0;  // of the device, in all
  bool host_accessible = false;    // its buffers can be read and written by the CPU
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const tensor::Device& device() const = 0;
  virtual const Capabilities& capabilities() const = 0;
  virtual const Operations& operations() const = 0;
  virtual std::shared_ptr<tensor::Memory> memory() const = 0;
  // Fails with: internal.
  virtual Result<std::unique_ptr<tensor::Stream>> open_stream() = 0;
  // Copies between host and device memory in the stream's order.
  virtual Result<void> upload(tensor::Stream& stream, std::span<const float> from, float* to) = 0;
  virtual Result<void> download(tensor::Stream& stream, const float* from, std::span<float> to) = 0;
};

}  // namespace gpunode::ops
