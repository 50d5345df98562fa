#include "kernels/cpu/operations.hpp"
#include "kernels/ops/attention.hpp"

#define GPUNODE_ISA_BODY "kernels/cpu/detail/attention_cached_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {
namespace {

template <class Head>
void attend(void (*kernel)(const Head&), const ops::AttentionCachedArgs& args, float* scores) {
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
      kernel({row + offset, args.keys.data + offset, args.values.data + offset, channels, depth,
              position + t + 1, scale, scores, args.out.data + t * channels + offset});
    }
  }
}

}  // namespace

Result<void> attention_cached(tensor::Stream&, tensor::Workspace& workspace,
                              const ops::AttentionCachedArgs& args) {
  const std::int64_t end = args.position + args.qkv.shape[0];
  GPUNODE_CHECK(end <= args.keys.shape[0], "attention_cached: more positions than the cache holds");
  tensor::Workspace::Scope scope(workspace);
  float* scores = workspace.take<float>(static_cast<std::size_t>(ops::padded_row(end)));
  if (!scores) return {ErrorCode::out_of_memory, "attention_cached: the workspace is too small"};
  switch (current_isa()) {
    case Isa::avx512:
      attend(avx512::attention_cached_head, args, scores);
      break;
    case Isa::avx2:
      attend(avx2::attention_cached_head, args, scores);
      break;
    case Isa::portable:
      attend(portable::attention_cached_head, args, scores);
      break;
  }
  return {};
}

}  // namespace gpunode::cpu
