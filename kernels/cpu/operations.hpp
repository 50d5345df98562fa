// The CPU's operations, one file each; contracts in kernels/ops. Each is run by the calling thread
// alone and has finished when it returns; shapes are checked, as a wrong one is our own bug.
#pragma once

#include "kernels/ops/backend.hpp"

namespace gpunode::cpu {

Result<void> matmul(tensor::Stream&, tensor::Workspace&, const ops::MatmulArgs& args);
Result<void> layernorm(tensor::Stream&, tensor::Workspace&, const ops::LayernormArgs& args);
Result<void> layernorm_backward(tensor::Stream&, tensor::Workspace&,
                                const ops::LayernormBackwardArgs& args);
Result<void> gelu(tensor::Stream&, tensor::Workspace&, const ops::GeluArgs& args);
Result<void> gelu_backward(tensor::Stream&, tensor::Workspace&, const ops::GeluBackwardArgs& args);
Result<void> attention(tensor::Stream&, tensor::Workspace& workspace,
                       const ops::AttentionArgs& args);
Result<void> attention_backward(tensor::Stream&, tensor::Workspace& workspace,
                                const ops::AttentionBackwardArgs& args);
Result<void> attention_cached(tensor::Stream&, tensor::Workspace& workspace,
                              const ops::AttentionCachedArgs& args);
Result<void> embedding(tensor::Stream&, tensor::Workspace&, const ops::EmbeddingArgs& args);
Result<void> embedding_backward(tensor::Stream&, tensor::Workspace&,
                                const ops::EmbeddingBackwardArgs& args);
Result<void> cross_entropy(tensor::Stream&, tensor::Workspace&, const ops::CrossEntropyArgs& args);
Result<void> add(tensor::Stream&, tensor::Workspace&, const ops::AddArgs& args);
Result<void> column_sum(tensor::Stream&, tensor::Workspace&, const ops::ColumnSumArgs& args);
Result<void> adamw(tensor::Stream&, tensor::Workspace&, const ops::AdamwArgs& args);
Result<void> square_sum(tensor::Stream&, tensor::Workspace&, const ops::SquareSumArgs& args);
Result<void> pack_bf16(tensor::Stream&, tensor::Workspace&, const ops::PackArgs& args);
Result<void> unpack_bf16(tensor::Stream&, tensor::Workspace&, const ops::UnpackArgs& args);
Result<void> pack_int8(tensor::Stream&, tensor::Workspace&, const ops::PackArgs& args);
Result<void> pack_int8_carrying(tensor::Stream&, tensor::Workspace&,
                                const ops::PackCarryingArgs& args);
Result<void> unpack_int8(tensor::Stream&, tensor::Workspace&, const ops::UnpackArgs& args);
Result<void> pack_top(tensor::Stream&, tensor::Workspace&, const ops::PackArgs& args);
Result<void> unpack_top(tensor::Stream&, tensor::Workspace&, const ops::UnpackArgs& args);

// out[r] += row for each row of out (T, N).
void add_row(tensor::ConstTensor row, tensor::Tensor out);

}  // namespace gpunode::cpu
