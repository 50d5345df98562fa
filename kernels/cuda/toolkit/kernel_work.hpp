// From the arguments of an operation to what its launch takes; one function an operation that runs
// a kernel of ours, or one that may fail, as it takes scratch memory or cannot do all there is. Free
// of CUDA's runtime, so that the emulation takes the same way.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>

#include "kernels/cuda/toolkit/launch.hpp"
#include "kernels/ops/backend.hpp"

namespace gpunode::cuda {

inline int as_int(std::int64_t value) {
  return static_cast<int>(value);
}
// Rows of x if a row is as long as `row`.
inline int rows_of(const tensor::ConstTensor& x, const tensor::ConstTensor& row) {
  return as_int(x.element_count() / row.element_count());
}
inline int last_extent(const tensor::Shape& shape) {
  return as_int(shape[shape.rank() - 1]);
}

// Fails with: unsupported, for rows that no team of threads holds.
inline Result<void> check_norm(std::int64_t columns) {
  if (columns <= kNormColumns) return {};
  return {ErrorCode::unsupported, "a norm of rows of " + std::to_string(columns) +
                                      " values; on a GPU they have at most " +
                                      std::to_string(kNormColumns)};
}
inline Result<NormLaunch> layernorm_work(const ops::LayernormArgs& args, tensor::Workspace&) {
  if (auto done = check_norm(args.weight.element_count()); !done) return done.error();
  return NormLaunch{args.x.data,
                    args.residual.data,
                    args.weight.data,
                    args.bias.data,
                    args.sum.data,
                    args.y.data,
                    args.mean.data,
                    args.rstd.data,
                    rows_of(args.x, args.weight),
                    as_int(args.weight.element_count()),
                    args.epsilon};
}
inline Result<NormLaunch> rmsnorm_work(const ops::RmsnormArgs& args, tensor::Workspace&) {
  if (auto done = check_norm(args.weight.element_count()); !done) return done.error();
  return NormLaunch{args.x.data,
                    args.residual.data,
                    args.weight.data,
                    nullptr,
                    args.sum.data,
                    args.y.data,
                    nullptr,
                    args.rstd.data,
                    rows_of(args.x, args.weight),
                    as_int(args.weight.element_count()),
                    args.epsilon};
}
// The scratch memory of a norm's backward. Fails with: out_of_memory, unsupported.
inline Result<float*> norm_parts(const auto& args, tensor::Workspace& workspace) {
  const std::int64_t columns = args.weight.element_count();
  if (auto done = check_norm(columns); !done) return done.error();
  const std::int64_t most = std::min(kNormParts, rows_of(args.x, args.weight));
  float* parts = workspace.take<float>(static_cast<std::size_t>(most * 2 * columns));
  if (!parts) return Error{ErrorCode::out_of_memory, "norm_backward: the workspace is too small"};
  return parts;
}
inline Result<NormBackwardLaunch> layernorm_backward_work(const ops::LayernormBackwardArgs& args,
                                                          tensor::Workspace& workspace) {
  const auto parts = norm_parts(args, workspace);
  if (!parts) return parts.error();
  return NormBackwardLaunch{args.dy.data,
                            args.x.data,
                            args.weight.data,
                            args.mean.data,
                            args.rstd.data,
                            args.dx.data,
                            args.dweight.data,
                            args.dbias.data,
                            *parts,
                            rows_of(args.x, args.weight),
                            as_int(args.weight.element_count())};
}
inline Result<NormBackwardLaunch> rmsnorm_backward_work(const ops::RmsnormBackwardArgs& args,
                                                        tensor::Workspace& workspace) {
  const auto parts = norm_parts(args, workspace);
  if (!parts) return parts.error();
  return NormBackwardLaunch{args.dy.data,
                            args.x.data,
                            args.weight.data,
                            nullptr,
                            args.rstd.data,
                            args.dx.data,
                            args.dweight.data,
                            nullptr,
                            *parts,
                            rows_of(args.x, args.weight),
                            as_int(args.weight.element_count())};
}

// A product of factors in another place and type than the arguments' own: rounded to bf16.
template <class Element>
ProductLaunch<Element> product_of(const ops::MatmulArgs& args, const Element* a, const Element* b) {
  const tensor::Shape& left = args.a.shape;
  return {a,
          b,
          args.bias.data,
          args.c.data,
          as_int(left[args.transpose_a ? 1 : 0]),
          as_int(args.b.shape[args.transpose_b ? 0 : 1]),
          as_int(left[args.transpose_a ? 0 : 1]),
          args.transpose_a,
          args.transpose_b,
          args.accumulate};
}
inline PackedRows packed_rows(ByteView packed, ops::WeightFormat format, std::int64_t inner) {
  return {packed.data(), static_cast<std::int64_t>(ops::weight_row_bytes(format, inner)), format};
}
inline ProductLaunch<float> product_work(const ops::MatmulArgs& args) {
  ProductLaunch<float> work = product_of(args, args.a.data, args.b.data);
  work.packed_b = packed_rows(args.packed_b, args.weights, args.b.shape[1]);
  return work;
}
struct RoundedProduct {
  const ops::MatmulArgs& args;
  const std::uint16_t *a, *b;
};
inline ProductLaunch<std::uint16_t> rounded_product_work(const RoundedProduct& rounded) {
  return product_of(rounded.args, rounded.a, rounded.b);
}

// What attention of H heads over K (0: as many) takes. Fails with: unsupported, for heads that are
// deeper than the kernels' tiles.
inline Result<AttentionExtents> attention_extents(std::int64_t joined, std::int64_t heads,
                                                  std::int64_t key_heads) {
  key_heads = key_heads == 0 ? heads : key_heads;
  const std::int64_t depth = joined / (heads + 2 * key_heads);
  if (depth > 128)
    return {ErrorCode::unsupported, "attention: heads of " + std::to_string(depth) +
                                        " values; on a GPU they have at most 128"};
  AttentionExtents extents = {};
  extents.heads = as_int(heads);
  extents.key_heads = as_int(key_heads);
  extents.depth = as_int(depth);
  return extents;
}
inline Result<AttentionExtents> attention_extents(const tensor::Shape& qkv, const auto& args) {
  auto extents = attention_extents(qkv[2], args.heads, args.kv_heads);
  if (!extents) return extents;
  extents->samples = as_int(qkv[0]);
  extents->positions = as_int(qkv[1]);
  extents->causal = args.causal;
  extents->lengths = args.lengths.data;
  return extents;
}
inline Result<AttentionLaunch<float>> attention_work(const ops::AttentionArgs& args,
                                                     tensor::Workspace&) {
  const auto extents = attention_extents(args.qkv.shape, args);
  if (!extents) return extents.error();
  return AttentionLaunch<float>{*extents, args.qkv.data, args.out.data, args.statistics.data};
}
inline Result<AttentionBackwardLaunch<float>> attention_backward_work(
    const ops::AttentionBackwardArgs& args, tensor::Workspace& workspace) {
  const auto extents = attention_extents(args.qkv.shape, args);
  if (!extents) return extents.error();
  auto* deltas = workspace.take<float>(static_cast<std::size_t>(extents->samples) *
                                       static_cast<std::size_t>(extents->heads) *
                                       static_cast<std::size_t>(extents->positions));
  if (!deltas) return {ErrorCode::out_of_memory, "attention_backward: the workspace is too small"};
  return AttentionBackwardLaunch<float>{*extents,      args.dout.data,       args.out.data,
                                        args.qkv.data, args.statistics.data, deltas,
                                        args.dqkv.data};
}
// The same in bf16, where the operands are in that form already.
struct RoundedAttention {
  const ops::AttentionArgs& args;
  const std::uint16_t* qkv;
  std::uint16_t* out;
};
inline Result<AttentionLaunch<std::uint16_t>> rounded_attention_work(
    const RoundedAttention& rounded, tensor::Workspace& workspace) {
  const auto work = attention_work(rounded.args, workspace);
  if (!work) return work.error();
  return AttentionLaunch<std::uint16_t>{work->extents, rounded.qkv, rounded.out, work->statistics};
}
struct RoundedAttentionBackward {
  const ops::AttentionBackwardArgs& args;
  const std::uint16_t *dout, *out, *qkv;
  std::uint16_t* dqkv;
};
inline Result<AttentionBackwardLaunch<std::uint16_t>> rounded_attention_backward_work(
    const RoundedAttentionBackward& rounded, tensor::Workspace& workspace) {
  const auto work = attention_backward_work(rounded.args, workspace);
  if (!work) return work.error();
  return AttentionBackwardLaunch<std::uint16_t>{work->extents, rounded.dout,     rounded.out,
                                                rounded.qkv,   work->statistics, work->deltas,
                                                rounded.dqkv};
}
inline Result<PagedAttentionLaunch> attention_paged_work(const ops::AttentionPagedArgs& args,
                                                         tensor::Workspace&) {
  const auto extents = attention_extents(args.qkv.shape[1], args.heads, args.kv_heads);
  if (!extents) return extents.error();
  return PagedAttentionLaunch{args.qkv.data,       args.keys.data,
                              args.values.data,    args.out.data,
                              args.positions.data, args.texts.data,
                              args.pages.data,     as_int(args.qkv.shape[0]),
                              as_int(args.page),   as_int(args.pages.shape[1]),
                              extents->heads,      extents->key_heads,
                              extents->depth};
}

inline GeluLaunch gelu_work(const ops::GeluArgs& args) {
  return {args.x.data, args.y.data, args.x.element_count(), args.form == ops::GeluForm::erf};
}
inline GeluBackwardLaunch gelu_backward_work(const ops::GeluBackwardArgs& args) {
  return {args.dy.data, args.x.data, args.dx.data, args.x.element_count(),
          args.form == ops::GeluForm::erf};
}
inline ReluLaunch relu_work(const ops::ReluArgs& args) {
  return {args.x.data, args.y.data, args.x.element_count()};
}
inline ReluBackwardLaunch relu_backward_work(const ops::ReluBackwardArgs& args) {
  return {args.dy.data, args.y.data, args.dx.data, args.y.element_count()};
}
inline TanhLaunch tanh_work(const ops::TanhArgs& args) {
  return {args.x.data, args.y.data, args.x.element_count()};
}
inline TanhBackwardLaunch tanh_backward_work(const ops::TanhBackwardArgs& args) {
  return {args.dy.data, args.y.data, args.dx.data, args.y.element_count()};
}
inline SwigluLaunch swiglu_work(const ops::SwigluArgs& args) {
  const int columns = last_extent(args.y.shape);
  return {args.x.data, args.y.data, as_int(args.y.element_count() / columns), columns};
}
inline SwigluBackwardLaunch swiglu_backward_work(const ops::SwigluBackwardArgs& args) {
  const int columns = last_extent(args.dy.shape);
  return {args.dy.data, args.x.data, args.dx.data, as_int(args.dy.element_count() / columns),
          columns};
}
inline RotaryLaunch rotary_work(const ops::RotaryArgs& args) {
  const std::int64_t head_size = args.angles.shape[1] * args.angles.shape[2];
  return {args.angles.data,
          args.x.data,
          args.positions.data,
          args.x.shape[0] * args.x.shape[1],
          as_int(args.x.shape[1]),
          as_int(args.x.shape[2]),
          as_int(args.heads + args.key_heads),
          as_int(head_size / 2),
          args.inverse ? -1.0f : 1.0f};
}

inline int row_count(const tensor::ConstTensor& table) {
  return table ? as_int(table.shape[0]) : 0;
}
inline EmbeddingLaunch embedding_work(const ops::EmbeddingArgs& args) {
  return {args.tokens.data,
          args.segments.data,
          args.token_table.data,
          args.position_table.data,
          args.segment_table.data,
          args.x.data,
          args.positions.data,
          as_int(args.tokens.shape[0]),
          as_int(args.tokens.shape[1]),
          as_int(args.token_table.shape[1]),
          as_int(args.token_table.shape[0]),
          row_count(args.segment_table),
          packed_rows(args.packed_table, args.weights, args.token_table.shape[1])};
}
inline EmbeddingBackwardLaunch embedding_backward_work(const ops::EmbeddingBackwardArgs& args) {
  return {args.tokens.data,
          args.segments.data,
          args.dx.data,
          args.dtoken_table.data,
          args.dposition_table.data,
          args.dsegment_table.data,
          args.tokens.element_count(),
          args.dposition_table ? args.dposition_table.element_count() : 0,
          as_int(args.tokens.shape[1]),
          as_int(args.dtoken_table.shape[1]),
          row_count(args.dtoken_table),
          row_count(args.dsegment_table)};
}
inline CrossEntropyLaunch cross_entropy_work(const ops::CrossEntropyArgs& args) {
  const std::int64_t rows = args.targets.element_count();
  return {args.logits.data,  args.targets.data, args.losses.data,
          args.dlogits.data, as_int(rows),      as_int(args.logits.element_count() / rows)};
}

inline AddLaunch add_work(const ops::AddArgs& args) {
  return {args.a.data, args.b.data, args.c.data, args.out.data, args.out.element_count()};
}
inline Result<ColumnSumLaunch> column_sum_work(const ops::ColumnSumArgs& args,
                                               tensor::Workspace& workspace) {
  const std::int64_t columns = args.out.element_count(), rows = args.x.element_count() / columns;
  const std::int64_t block = ops::sum_block(rows), blocks = (rows + block - 1) / block;
  auto* parts = workspace.take<float>(static_cast<std::size_t>(blocks * columns));
  if (!parts) return Error{ErrorCode::out_of_memory, "column_sum: the workspace is too small"};
  return ColumnSumLaunch{args.x.data, args.out.data, parts, rows, columns, block};
}

inline AdamwLaunch adamw_work(const ops::AdamwArgs& args) {
  return {args.gradient.data,
          args.weights.data,
          args.first.data,
          args.second.data,
          args.gradient.element_count(),
          args.scale,
          args.rate,
          args.beta1,
          args.beta2,
          args.epsilon,
          args.decay,
          args.upscale1,
          args.upscale2,
          args.blocks};
}
inline SquareSumLaunch square_sum_work(const ops::SquareSumArgs& args) {
  return {args.x.data, args.sum, args.x.element_count(), args.blocks};
}

inline FollowLaunch follow_work(const ops::FollowArgs& args) {
  return {args.sum.data, args.values.data, args.sum.element_count(),
          args.scale,    args.share,       args.blocks};
}
inline unsigned char* bytes_at(MutableByteView bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}
inline const unsigned char* bytes_at(ByteView bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

inline PackBf16Launch pack_bf16_work(const ops::PackArgs& args) {
  return {args.in.data, bytes_at(args.out), args.in.element_count()};
}
inline UnpackBf16Launch unpack_bf16_work(const ops::UnpackArgs& args) {
  return {bytes_at(args.in), args.out.data, args.out.element_count()};
}
inline PackInt8Launch pack_int8_work(const ops::PackArgs& args) {
  return {args.in.data, nullptr, nullptr, nullptr, bytes_at(args.out), args.in.element_count()};
}
inline PackInt8Launch pack_int8_carrying_work(const ops::PackCarryingArgs& args) {
  return {args.in.data, args.carried,       args.lost,
          args.arrives, bytes_at(args.out), args.in.element_count()};
}
inline UnpackInt8Launch unpack_int8_work(const ops::UnpackArgs& args) {
  return {bytes_at(args.in), args.out.data, args.out.element_count()};
}
inline BlockDigestLaunch block_digest_work(const ops::BlockDigestArgs& args) {
  const auto bytes = static_cast<std::int64_t>(args.in.size());
  const auto block = static_cast<std::int64_t>(args.block_bytes);
  return {bytes_at(args.in), args.out, bytes, block, bytes == 0 ? 1 : (bytes + block - 1) / block};
}

// start(launch) with what the operation's function makes of its arguments; scratch memory is free
// again once the kernels are queued, as what takes it next is queued behind them.
template <auto kWork, class Args, class Start>
Result<void> start_work(tensor::Workspace& workspace, const Args& args, Start start) {
  if constexpr (std::is_invocable_v<decltype(kWork), const Args&>) {
    return start(kWork(args));
  } else {
    tensor::Workspace::Scope scope(workspace);
    const auto work = kWork(args, workspace);
    return work ? start(*work) : Result<void>(work.error());
  }
}

}  // namespace gpunode::cuda
