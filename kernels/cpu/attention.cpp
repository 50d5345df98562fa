#include "kernels/ops/attention.hpp"

#include "kernels/cpu/operations.hpp"

namespace gpunode::cpu {

struct HeadForward {
  const float* query;       // (T, width), scaled
  const float* key_turned;  // (D, stride)
  const float* value;       // (T, width)
  float* scores;            // (T, stride), becomes the probabilities
  float* out;               // (T, width)
  std::size_t length, depth, stride;
};

struct HeadBackward {
  const float* query;             // (T, width), scaled
  const float* key;               // (T, width)
  const float* value_turned;      // (D, stride)
  const float* dout;              // (T, width)
  const float* probabilities;     // (T, stride)
  float* dscores;                 // (T, stride), scratch
  float *dquery, *dkey, *dvalue;  // (T, width); dquery is still to be scaled
  std::size_t length, depth, stride;
};

}  // namespace gpunode::cpu

#define GPUNODE_ISA_BODY "kernels/cpu/detail/attention_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {
namespace {

struct Extents {
  std::size_t samples, length, channels, heads, depth, width, stride;
  float scale;
};

Extents extents_of(const tensor::Shape& qkv, std::int64_t heads) {
  const auto rank = qkv.rank();
  const std::int64_t channels = qkv[rank - 1] / 3;
  GPUNODE_CHECK(heads > 0 && channels % heads == 0, "attention: heads do not divide channels");
  Extents e{};
  e.samples = rank == 3 ? static_cast<std::size_t>(qkv[0]) : 1;
  e.length = static_cast<std::size_t>(qkv[rank - 2]);
  e.channels = static_cast<std::size_t>(channels);
  e.heads = static_cast<std::size_t>(heads);
  e.depth = e.channels / e.heads;
  e.width = static_cast<std::size_t>(ops::padded_row(static_cast<std::int64_t>(e.depth)));
  e.stride = static_cast<std::size_t>(ops::padded_row(static_cast<std::int64_t>(e.length)));
  e.scale = 1.0f / std::sqrt(static_cast<float>(e.depth));
  return e;
}

Error too_small() {
  return {ErrorCode::out_of_memory, "attention: the workspace is too small for this length"};
}

}  // namespace

Result<void> attention(tensor::Stream&, tensor::Workspace& workspace,
                       const ops::AttentionArgs& args) {
  const Extents e = extents_of(args.qkv.shape, args.heads);
  const auto pack_rows = GPUNODE_PICK(pack_rows);
  const auto pack_turned = GPUNODE_PICK(pack_turned);
  const auto unpack_rows = GPUNODE_PICK(unpack_rows);
  const auto attention_head = GPUNODE_PICK(attention_head);
  tensor::Workspace::Scope scope(workspace);
  const std::size_t packed = e.length * e.width;
  float* query = workspace.take<float>(packed);
  float* key_turned = workspace.take<float>(e.depth * e.stride);
  float* value = workspace.take<float>(packed);
  float* out = workspace.take<float>(packed);
  if (!query || !key_turned || !value || !out) return too_small();
  const std::size_t row = 3 * e.channels;
  for (std::size_t b = 0; b < e.samples; ++b) {
    for (std::size_t h = 0; h < e.heads; ++h) {
      const float* source = args.qkv.data + b * e.length * row + h * e.depth;
      pack_rows(source, row, e.length, e.depth, e.scale, query);
      pack_turned(source + e.channels, row, e.length, e.depth, e.stride, key_turned);
      pack_rows(source + 2 * e.channels, row, e.length, e.depth, 1.0f, value);
      float* scores = args.probabilities.data + (b * e.heads + h) * e.length * e.stride;
      attention_head({query, key_turned, value, scores, out, e.length, e.depth, e.stride});
      unpack_rows(out, e.length, e.depth, 1.0f,
                  args.out.data + b * e.length * e.channels + h * e.depth, e.channels);
    }
  }
  return {};
}

Result<void> attention_backward(tensor::Stream&, tensor::Workspace& workspace,
                                const ops::AttentionBackwardArgs& args) {
  const Extents e = extents_of(args.qkv.shape, args.heads);
  const auto pack_rows = GPUNODE_PICK(pack_rows);
  const auto pack_turned = GPUNODE_PICK(pack_turned);
  const auto unpack_rows = GPUNODE_PICK(unpack_rows);
  const auto attention_head_backward = GPUNODE_PICK(attention_head_backward);
  tensor::Workspace::Scope scope(workspace);
  const std::size_t packed = e.length * e.width;
  float* query = workspace.take<float>(packed);
  float* key = workspace.take<float>(packed);
  float* value_turned = workspace.take<float>(e.depth * e.stride);
  float* dout = workspace.take<float>(packed);
  float* dscores = workspace.take<float>(e.length * e.stride);
  float* dquery = workspace.take<float>(packed);
  float* dkey = workspace.take<float>(packed);
  float* dvalue = workspace.take<float>(packed);
  if (!query || !key || !value_turned || !dout || !dscores || !dquery || !dkey || !dvalue)
    return too_small();
  const std::size_t row = 3 * e.channels;
  for (std::size_t b = 0; b < e.samples; ++b) {
    for (std::size_t h = 0; h < e.heads; ++h) {
      const float* source = args.qkv.data + b * e.length * row + h * e.depth;
      pack_rows(source, row, e.length, e.depth, e.scale, query);
      pack_rows(source + e.channels, row, e.length, e.depth, 1.0f, key);
      pack_turned(source + 2 * e.channels, row, e.length, e.depth, e.stride, value_turned);
      pack_rows(args.dout.data + b * e.length * e.channels + h * e.depth, e.channels, e.length,
                e.depth, 1.0f, dout);
      const float* chances = args.probabilities.data + (b * e.heads + h) * e.length * e.stride;
      attention_head_backward({query, key, value_turned, dout, chances, dscores, dquery, dkey,
                               dvalue, e.length, e.depth, e.stride});
      float* target = args.dqkv.data + b * e.length * row + h * e.depth;
      unpack_rows(dquery, e.length, e.depth, e.scale, target, row);
      unpack_rows(dkey, e.length, e.depth, 1.0f, target + e.channels, row);
      unpack_rows(dvalue, e.length, e.depth, 1.0f, target + 2 * e.channels, row);
    }
  }
  return {};
}

}  // namespace gpunode::cpu
