#include "kernels/cpu/operations.hpp"
#include "kernels/ops/attention.hpp"

namespace gpunode::cpu {

struct CachedHead {
  const float *query, *keys, *values;  // (D), (seen, C), (seen, C)
  std::size_t channels, depth, seen;
  float scale;
  float* scores;  // (seen in whole vectors), scratch
  float* out;     // (D)
};

}  // namespace gpunode::cpu

#define GPUNODE_ISA_BODY "kernels/cpu/detail/attention_cached_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {

Result<void> attention_cached(tensor::Stream&, tensor::Workspace& workspace,
                              const ops::AttentionCachedArgs& args) {
  const std::int64_t end = args.position + args.qkv.shape[0];
  GPUNODE_CHECK(end <= args.keys.shape[0], "attention_cached: more positions than the cache holds");
  tensor::Workspace::Scope scope(workspace);
  float* scores = workspace.take<float>(static_cast<std::size_t>(ops::padded_row(end)));
  if (!scores) return {ErrorCode::out_of_memory, "attention_cached: the workspace is too small"};
  const auto attend = GPUNODE_PICK(attention_cached_head);
  const auto length = static_cast<std::size_t>(args.qkv.shape[0]);
  const auto channels = static_cast<std::size_t>(args.qkv.shape[1]) / 3;
  const auto heads = static_cast<std::size_t>(args.heads);
  const auto position = static_cast<std::size_t>(args.position);
  const std::size_t depth = channels / heads;
  const float scale = 1.0f / std::sqrt(static_cast<float>(depth));
  for (std::size_t t = 0; t < length; ++t) {
    const float* row = args.qkv.data + t * 3 * channels;
    std::copy_n(row + channels, channels, args.keys.data + (position + t) * channels);
    std::copy_n(row + 2 * channels, channels, args.values.data + (position + t) * channels);
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t offset = h * depth;
      attend({row + offset, args.keys.data + offset, args.values.data + offset, channels, depth,
              position + t + 1, scale, scores, args.out.data + t * channels + offset});
    }
  }
  return {};
}

}  // namespace gpunode::cpu
