// What each operation reads and writes: the one place that knows, for each struct of arguments, which
// of its fields are memory, how many bytes of it and for what. A device that must not guess asks
// here: one that checks that nothing overtakes anything (tests/parity/hostile), or that works at
// another address. A range that depends on data, or that has gaps, is given whole.
// Costs nothing unless asked; a new operation without a visit() does not compile where it is asked.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/ops/backend.hpp"

namespace gpunode::ops {

enum class Use : std::uint8_t {
  read,
  write,   // every byte, whatever was there
  update,  // read and written, or written in part
};

// `bytes` of a field's memory from `first` on.
struct Part {
  std::size_t first = 0, bytes = 0;
  Use use = Use::read;
};

// Whether an operation takes scratch memory from its workspace, on one device or another.
template <class Args>
inline constexpr bool kTakesWorkspace = false;
template <>
inline constexpr bool kTakesWorkspace<MatmulArgs> = true;
template <>
inline constexpr bool kTakesWorkspace<AttentionArgs> = true;
template <>
inline constexpr bool kTakesWorkspace<AttentionBackwardArgs> = true;
template <>
inline constexpr bool kTakesWorkspace<AttentionPagedArgs> = true;
template <>
inline constexpr bool kTakesWorkspace<Conv2dArgs> = true;
template <>
inline constexpr bool kTakesWorkspace<LayernormBackwardArgs> = true;
template <>
inline constexpr bool kTakesWorkspace<RmsnormBackwardArgs> = true;
template <>
inline constexpr bool kTakesWorkspace<ColumnSumArgs> = true;
template <>
inline constexpr bool kTakesWorkspace<Conv2dBackwardArgs> = true;
template <>
inline constexpr bool kTakesWorkspace<BatchnormArgs> = true;
template <>
inline constexpr bool kTakesWorkspace<BatchnormBackwardArgs> = true;

namespace detail {

// One field, all of it.
template <class T, class Each>
void whole(Each& each, std::string_view name, tensor::View<T>& view, Use use) {
  each(name, view.data, {Part{0, static_cast<std::size_t>(view.element_count()) * sizeof(T), use}});
}
template <class T, class Each>
void whole(Each& each, std::string_view name, std::span<T>& view, Use use) {
  T* data = view.data();
  each(name, data, {Part{0, view.size(), use}});
  view = {data, view.size()};
}
template <class T, class Each>
void array(Each& each, std::string_view name, T*& data, std::int64_t count, Use use) {
  each(name, data, {Part{0, static_cast<std::size_t>(count) * sizeof(T), use}});
}
template <class Each>
void table(Each& each, BlockTable& blocks) {
  if (blocks.count > 0) array(each, "blocks", blocks.rows, blocks.count, Use::read);
}
// One that may be absent.
template <class View, class Each>
void if_given(Each& each, std::string_view name, View& view, Use use) {
  if (view) whole(each, name, view, use);
}
// Rows `first` to `first + count` of a table (L, ...).
template <class T, class Each>
void rows(Each& each, std::string_view name, tensor::View<T>& table, std::int64_t first,
          std::int64_t count, Use use) {
  const std::int64_t row = table.element_count() / table.shape[0];
  each(name, table.data,
       {Part{static_cast<std::size_t>(first * row) * sizeof(T),
             static_cast<std::size_t>(count * row) * sizeof(T), use}});
}

}  // namespace detail

// visit(args, each) calls  each(name of a field, its pointer, its parts)  for every field that is
// given. The pointer is a reference, `T*&`: whoever visits may put another address there. Parts are a
// std::initializer_list<Part>, in bytes from that pointer.

template <class Each>
void visit(MatmulArgs& args, Each&& each) {
  detail::whole(each, "a", args.a, Use::read);
  if (args.packed_b.empty()) detail::whole(each, "b", args.b, Use::read);
  detail::whole(each, "c", args.c, args.accumulate ? Use::update : Use::write);
  detail::if_given(each, "bias", args.bias, Use::read);
  detail::whole(each, "packed_b", args.packed_b, Use::read);
  detail::if_given(each, "before", args.before, Use::write);
}

template <class Each>
void visit(PackProductArgs& args, Each&& each) {
  detail::whole(each, "b", args.b, Use::read);
  detail::whole(each, "out", args.out, Use::update);
}

template <class Each>
void visit(LayernormArgs& args, Each&& each) {
  detail::whole(each, "x", args.x, Use::read);
  detail::if_given(each, "residual", args.residual, Use::read);
  detail::if_given(each, "sum", args.sum, Use::write);
  detail::whole(each, "weight", args.weight, Use::read);
  detail::whole(each, "bias", args.bias, Use::read);
  detail::whole(each, "y", args.y, Use::write);
  detail::whole(each, "mean", args.mean, Use::write);
  detail::whole(each, "rstd", args.rstd, Use::write);
}

template <class Each>
void visit(LayernormBackwardArgs& args, Each&& each) {
  detail::whole(each, "dy", args.dy, Use::read);
  detail::whole(each, "x", args.x, Use::read);
  detail::whole(each, "weight", args.weight, Use::read);
  detail::whole(each, "mean", args.mean, Use::read);
  detail::whole(each, "rstd", args.rstd, Use::read);
  detail::whole(each, "dx", args.dx, Use::update);
  detail::whole(each, "dweight", args.dweight, Use::write);
  detail::whole(each, "dbias", args.dbias, Use::write);
}

template <class Each>
void visit(GeluArgs& args, Each&& each) {
  detail::whole(each, "x", args.x, Use::read);
  detail::whole(each, "y", args.y, Use::write);
}

template <class Each>
void visit(GeluBackwardArgs& args, Each&& each) {
  detail::whole(each, "dy", args.dy, Use::read);
  detail::whole(each, "x", args.x, Use::read);
  detail::whole(each, "dx", args.dx, Use::write);
}

template <class Each>
void visit(AttentionArgs& args, Each&& each) {
  detail::whole(each, "qkv", args.qkv, Use::read);
  detail::if_given(each, "lengths", args.lengths, Use::read);
  detail::whole(each, "out", args.out, Use::write);
  detail::whole(each, "statistics", args.statistics, Use::write);
}

template <class Each>
void visit(AttentionBackwardArgs& args, Each&& each) {
  detail::whole(each, "dout", args.dout, Use::read);
  detail::whole(each, "qkv", args.qkv, Use::read);
  detail::whole(each, "out", args.out, Use::read);
  detail::whole(each, "statistics", args.statistics, Use::read);
  detail::if_given(each, "lengths", args.lengths, Use::read);
  detail::whole(each, "dqkv", args.dqkv, Use::write);
}

template <class Each>
void visit(AttentionPagedArgs& args, Each&& each) {
  detail::whole(each, "qkv", args.qkv, Use::read);
  detail::whole(each, "positions", args.positions, Use::read);
  detail::whole(each, "texts", args.texts, Use::read);
  detail::whole(each, "pages", args.pages, Use::read);
  detail::whole(each, "keys", args.keys, Use::update);
  detail::whole(each, "values", args.values, Use::update);
  detail::whole(each, "out", args.out, Use::write);
}

template <class Each>
void visit(EmbeddingArgs& args, Each&& each) {
  detail::whole(each, "tokens", args.tokens, Use::read);
  if (args.packed_table.empty()) detail::whole(each, "token_table", args.token_table, Use::read);
  detail::whole(each, "packed_table", args.packed_table, Use::read);
  detail::if_given(each, "positions", args.positions, Use::read);
  if (args.position_table)
    detail::rows(each, "position_table", args.position_table, 0,
                 args.positions ? args.position_table.shape[0] : args.tokens.shape[1], Use::read);
  detail::whole(each, "x", args.x, Use::write);
  detail::if_given(each, "segments", args.segments, Use::read);
  detail::if_given(each, "segment_table", args.segment_table, Use::read);
}

template <class Each>
void visit(EmbeddingBackwardArgs& args, Each&& each) {
  detail::whole(each, "tokens", args.tokens, Use::read);
  detail::whole(each, "dx", args.dx, Use::read);
  detail::whole(each, "dtoken_table", args.dtoken_table, Use::update);
  detail::if_given(each, "dposition_table", args.dposition_table, Use::write);
  detail::if_given(each, "segments", args.segments, Use::read);
  detail::if_given(each, "dsegment_table", args.dsegment_table, Use::write);
}

template <class Each>
void visit(CrossEntropyArgs& args, Each&& each) {
  detail::whole(each, "logits", args.logits, Use::read);
  detail::whole(each, "targets", args.targets, Use::read);
  detail::whole(each, "losses", args.losses, Use::write);
  detail::if_given(each, "dlogits", args.dlogits, Use::write);
}

template <class Each>
void visit(AddArgs& args, Each&& each) {
  detail::whole(each, "a", args.a, Use::read);
  detail::whole(each, "b", args.b, Use::read);
  detail::if_given(each, "c", args.c, Use::read);
  detail::whole(each, "out", args.out, Use::write);
}

template <class Each>
void visit(ColumnSumArgs& args, Each&& each) {
  detail::whole(each, "x", args.x, Use::read);
  detail::whole(each, "out", args.out, Use::write);
}

template <class Each>
void visit(AdamwArgs& args, Each&& each) {
  detail::whole(each, "gradient", args.gradient, Use::read);
  detail::whole(each, "weights", args.weights, Use::update);
  detail::whole(each, "first", args.first, Use::update);
  detail::whole(each, "second", args.second, Use::update);
  detail::table(each, args.blocks);
}

template <class Each>
void visit(SquareSumArgs& args, Each&& each) {
  detail::whole(each, "x", args.x, Use::read);
  detail::array(each, "sum", args.sum, std::max<std::int64_t>(1, args.blocks.count), Use::write);
  detail::table(each, args.blocks);
}

template <class Each>
void visit(RmsnormArgs& args, Each&& each) {
  detail::whole(each, "x", args.x, Use::read);
  detail::if_given(each, "residual", args.residual, Use::read);
  detail::if_given(each, "sum", args.sum, Use::write);
  detail::whole(each, "weight", args.weight, Use::read);
  detail::whole(each, "y", args.y, Use::write);
  detail::whole(each, "rstd", args.rstd, Use::write);
}

template <class Each>
void visit(RmsnormBackwardArgs& args, Each&& each) {
  detail::whole(each, "dy", args.dy, Use::read);
  detail::whole(each, "x", args.x, Use::read);
  detail::whole(each, "weight", args.weight, Use::read);
  detail::whole(each, "rstd", args.rstd, Use::read);
  detail::whole(each, "dx", args.dx, Use::update);
  detail::whole(each, "dweight", args.dweight, Use::write);
}

template <class Each>
void visit(SwigluArgs& args, Each&& each) {
  detail::whole(each, "x", args.x, Use::read);
  detail::whole(each, "y", args.y, Use::write);
}

template <class Each>
void visit(SwigluBackwardArgs& args, Each&& each) {
  detail::whole(each, "dy", args.dy, Use::read);
  detail::whole(each, "x", args.x, Use::read);
  detail::whole(each, "dx", args.dx, Use::write);
}

template <class Each>
void visit(RotaryArgs& args, Each&& each) {
  detail::if_given(each, "positions", args.positions, Use::read);
  detail::rows(each, "angles", args.angles, 0,
               args.positions ? args.angles.shape[0] : args.x.shape[1], Use::read);
  detail::whole(each, "x", args.x, Use::update);
}

template <class Each>
void visit(ReluArgs& args, Each&& each) {
  detail::whole(each, "x", args.x, Use::read);
  detail::whole(each, "y", args.y, Use::write);
}

template <class Each>
void visit(ReluBackwardArgs& args, Each&& each) {
  detail::whole(each, "dy", args.dy, Use::read);
  detail::whole(each, "y", args.y, Use::read);
  detail::whole(each, "dx", args.dx, Use::write);
}

template <class Each>
void visit(TanhArgs& args, Each&& each) {
  detail::whole(each, "x", args.x, Use::read);
  detail::whole(each, "y", args.y, Use::write);
}

template <class Each>
void visit(TanhBackwardArgs& args, Each&& each) {
  detail::whole(each, "dy", args.dy, Use::read);
  detail::whole(each, "y", args.y, Use::read);
  detail::whole(each, "dx", args.dx, Use::write);
}

template <class Each>
void visit(Conv2dArgs& args, Each&& each) {
  detail::whole(each, "x", args.x, Use::read);
  detail::whole(each, "weight", args.weight, Use::read);
  detail::whole(each, "y", args.y, Use::write);
}

template <class Each>
void visit(Conv2dBackwardArgs& args, Each&& each) {
  detail::whole(each, "dy", args.dy, Use::read);
  detail::whole(each, "x", args.x, Use::read);
  detail::whole(each, "weight", args.weight, Use::read);
  detail::if_given(each, "dx", args.dx, Use::write);
  detail::whole(each, "dweight", args.dweight, Use::write);
}

template <class Each>
void visit(BatchnormArgs& args, Each&& each) {
  detail::whole(each, "x", args.x, Use::read);
  detail::whole(each, "weight", args.weight, Use::read);
  detail::whole(each, "bias", args.bias, Use::read);
  detail::whole(each, "y", args.y, Use::write);
  detail::whole(each, "mean", args.mean, Use::write);
  detail::whole(each, "rstd", args.rstd, Use::write);
  detail::if_given(each, "running_mean", args.running_mean, Use::read);
  detail::if_given(each, "running_variance", args.running_variance, Use::read);
}

template <class Each>
void visit(BatchnormBackwardArgs& args, Each&& each) {
  detail::whole(each, "dy", args.dy, Use::read);
  detail::whole(each, "x", args.x, Use::read);
  detail::whole(each, "weight", args.weight, Use::read);
  detail::whole(each, "mean", args.mean, Use::read);
  detail::whole(each, "rstd", args.rstd, Use::read);
  detail::whole(each, "dx", args.dx, Use::write);
  detail::whole(each, "dweight", args.dweight, Use::write);
  detail::whole(each, "dbias", args.dbias, Use::write);
}

template <class Each>
void visit(BatchnormStatisticsArgs& args, Each&& each) {
  detail::whole(each, "mean", args.mean, Use::read);
  detail::whole(each, "rstd", args.rstd, Use::read);
  detail::whole(each, "mean_sum", args.mean_sum, Use::write);
  detail::whole(each, "variance_sum", args.variance_sum, Use::write);
}

template <class Each>
void visit(FollowArgs& args, Each&& each) {
  detail::whole(each, "sum", args.sum, Use::read);
  detail::whole(each, "values", args.values, Use::update);
  detail::table(each, args.blocks);
}

template <class Each>
void visit(MaxPool2dArgs& args, Each&& each) {
  detail::whole(each, "x", args.x, Use::read);
  detail::whole(each, "y", args.y, Use::write);
  detail::whole(each, "places", args.places, Use::write);
}

template <class Each>
void visit(MaxPool2dBackwardArgs& args, Each&& each) {
  detail::whole(each, "dy", args.dy, Use::read);
  detail::whole(each, "places", args.places, Use::read);
  detail::whole(each, "dx", args.dx, Use::write);
}

template <class Each>
void visit(MeanPoolArgs& args, Each&& each) {
  detail::whole(each, "x", args.x, Use::read);
  detail::whole(each, "y", args.y, Use::write);
}

template <class Each>
void visit(MeanPoolBackwardArgs& args, Each&& each) {
  detail::whole(each, "dy", args.dy, Use::read);
  detail::whole(each, "dx", args.dx, Use::write);
}

template <class Each>
void visit(PackArgs& args, Each&& each) {
  detail::whole(each, "in", args.in, Use::read);
  detail::whole(each, "out", args.out, Use::write);
}

template <class Each>
void visit(UnpackArgs& args, Each&& each) {
  detail::whole(each, "in", args.in, Use::read);
  detail::whole(each, "out", args.out, Use::write);
}

template <class Each>
void visit(PackCarryingArgs& args, Each&& each) {
  const std::int64_t count = args.in.element_count();
  detail::whole(each, "in", args.in, Use::read);
  if (args.carried) detail::array(each, "carried", args.carried, count, Use::read);
  detail::array(each, "lost", args.lost, count, Use::update);
  if (args.arrives) detail::array(each, "arrives", args.arrives, count, Use::write);
  detail::whole(each, "out", args.out, Use::write);
}

template <class Each>
void visit(BlockDigestArgs& args, Each&& each) {
  const std::size_t blocks =
      std::max<std::size_t>(1, (args.in.size() + args.block_bytes - 1) / args.block_bytes);
  detail::whole(each, "in", args.in, Use::read);
  detail::array(each, "out", args.out, static_cast<std::int64_t>(2 * blocks), Use::write);
}

// A range that an operation reads or writes, or both.
struct Access {
  std::string_view field;  // "qkv"
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  Use use = Use::read;
};

// All ranges of one call that hold bytes, without what it takes from its workspace.
template <class Args>
std::vector<Access> accesses_of(Args args) {
  std::vector<Access> accesses;
  visit(args, [&](std::string_view field, auto*& data, std::initializer_list<Part> parts) {
    const auto* begin = reinterpret_cast<const std::byte*>(data);
    for (const Part& part : parts)
      if (part.bytes > 0) accesses.push_back({field, begin + part.first, part.bytes, part.use});
  });
  return accesses;
}

}  // namespace gpunode::ops
