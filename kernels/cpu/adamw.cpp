#include "kernels/ops/adamw.hpp"

#include "kernels/cpu/operations.hpp"

#define GPUNODE_ISA_BODY "kernels/cpu/detail/adamw_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {
namespace {

// The call's elements that are the row's.
ops::AdamwArgs part_of(const ops::AdamwArgs& args, const ops::BlockRow& row) {
  const std::int64_t first = row.begin - args.blocks.origin;
  ops::AdamwArgs part = args;
  part.gradient = {args.gradient.data + first, {row.count}};
  part.weights.data += first;
  part.first.data += first;
  part.second.data += first;
  part.decay = row.decay;
  return part;
}

}  // namespace

Result<void> adamw(tensor::Stream&, tensor::Workspace&, const ops::AdamwArgs& args) {
  GPUNODE_CHECK(args.gradient.element_count() == args.weights.element_count(),
                "adamw: sizes differ");
  if (args.blocks.count == 0)
    GPUNODE_PICK(adamw)(args, static_cast<std::size_t>(args.gradient.element_count()));
  for (std::int64_t at = 0; at < args.blocks.count; ++at)
    if (const ops::BlockRow& row = args.blocks.rows[at]; !row.is_buffer)
      GPUNODE_PICK(adamw)(part_of(args, row), static_cast<std::size_t>(row.count));
  return {};
}

Result<void> square_sum(tensor::Stream&, tensor::Workspace&, const ops::SquareSumArgs& args) {
  if (args.blocks.count == 0)
    *args.sum =
        GPUNODE_PICK(square_sum)(args.x.data, static_cast<std::size_t>(args.x.element_count()));
  for (std::int64_t at = 0; at < args.blocks.count; ++at) {
    const ops::BlockRow& row = args.blocks.rows[at];
    args.sum[at] = GPUNODE_PICK(square_sum)(args.x.data + (row.begin - args.blocks.origin),
                                            static_cast<std::size_t>(row.count));
  }
  return {};
}

}  // namespace gpunode::cpu
