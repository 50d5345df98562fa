#include "kernels/cpu/operations.hpp"
#include "kernels/ops/attention.hpp"

namespace gpunode::cpu {

struct CachedHead {
  const float *query, *keys, *values;  // (D), (seen, D) and (seen, D) at the distance `row`
  std::size_t row, depth, seen;
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
  const std::int64_t H = args.heads, K = args.kv_heads == 0 ? H : args.kv_heads;
  GPUNODE_CHECK(H > 0 && K > 0 && H % K == 0 && args.qkv.shape[1] % (H + 2 * K) == 0,
                "attention_cached: the heads do not divide the joined projection");
  const std::int64_t end = args.position + args.qkv.shape[0];
  GPUNODE_CHECK(end <= args.keys.shape[0], "attention_cached: more positions than the cache holds");
  tensor::Workspace::Scope scope(workspace);
  float* scores = workspace.take<float>(static_cast<std::size_t>(ops::padded_row(end)));
  if (!scores) return {ErrorCode::out_of_memory, "attention_cached: the workspace is too small"};
  const auto attend = GPUNODE_PICK(attention_cached_head);
  const auto length = static_cast<std::size_t>(args.qkv.shape[0]);
  const auto joined = static_cast<std::size_t>(args.qkv.shape[1]);
  const auto heads = static_cast<std::size_t>(H), kv_heads = static_cast<std::size_t>(K);
  const auto position = static_cast<std::size_t>(args.position);
  const std::size_t depth = joined / (heads + 2 * kv_heads);
  const std::size_t row = kv_heads * depth, out_row = heads * depth;
  const float scale = 1.0f / std::sqrt(static_cast<float>(depth));
  for (std::size_t t = 0; t < length; ++t) {
    const float* from = args.qkv.data + t * joined;
    std::copy_n(from + out_row, row, args.keys.data + (position + t) * row);
    std::copy_n(from + out_row + row, row, args.values.data + (position + t) * row);
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t shared = h / (heads / kv_heads) * depth;
      attend({from + h * depth, args.keys.data + shared, args.values.data + shared, row, depth,
              position + t + 1, scale, scores, args.out.data + t * out_row + h * depth});
    }
  }
  return {};
}

}  // namespace gpunode::cpu
