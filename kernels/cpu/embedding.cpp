#include "kernels/ops/embedding.hpp"

#include "kernels/cpu/operations.hpp"

#define GPUNODE_ISA_BODY "kernels/cpu/detail/add_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {

Result<void> embedding(tensor::Stream&, tensor::Workspace&, const ops::EmbeddingArgs& args) {
  const std::int64_t samples = args.tokens.shape[0], positions = args.tokens.shape[1];
  const std::int64_t vocabulary = args.token_table.shape[0], channels = args.token_table.shape[1];
  GPUNODE_CHECK(args.first + positions <= args.position_table.shape[0],
                "embedding: more positions than the table has");
  const auto add = GPUNODE_PICK(add);
  float* x = args.x.data;
  for (std::int64_t b = 0; b < samples; ++b) {
    for (std::int64_t t = 0; t < positions; ++t, x += channels) {
      const std::int32_t token = args.tokens.data[b * positions + t];
      GPUNODE_CHECK(token >= 0 && token < vocabulary, "embedding: token outside the vocabulary");
      add(args.token_table.data + token * channels,
          args.position_table.data + (args.first + t) * channels, x,
          static_cast<std::size_t>(channels));
    }
  }
  return {};
}

Result<void> embedding_backward(tensor::Stream&, tensor::Workspace&,
                                const ops::EmbeddingBackwardArgs& args) {
  const std::int64_t samples = args.tokens.shape[0], positions = args.tokens.shape[1];
  const std::int64_t channels = args.dtoken_table.shape[1];
  const auto width = static_cast<std::size_t>(channels);
  const auto add = GPUNODE_PICK(add);
  std::fill_n(args.dposition_table.data, args.dposition_table.element_count(), 0.0f);
  const float* dx = args.dx.data;
  for (std::int64_t b = 0; b < samples; ++b) {
    for (std::int64_t t = 0; t < positions; ++t, dx += channels) {
      float* token_row = args.dtoken_table.data + args.tokens.data[b * positions + t] * channels;
      float* position_row = args.dposition_table.data + t * channels;
      add(token_row, dx, token_row, width);
      add(position_row, dx, position_row, width);
    }
  }
  return {};
}

}  // namespace gpunode::cpu
