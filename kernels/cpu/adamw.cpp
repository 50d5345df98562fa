#include "kernels/ops/adamw.hpp"

#include "kernels/cpu/operations.hpp"

#define GPUNODE_ISA_BODY "kernels/cpu/detail/adamw_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {

Result<void> adamw(tensor::Stream&, tensor::Workspace&, const ops::AdamwArgs& args) {
  GPUNODE_CHECK(args.gradient.element_count() == args.weights.element_count(),
                "adamw: sizes differ");
  GPUNODE_PICK(adamw)(args, static_cast<std::size_t>(args.gradient.element_count()));
  return {};
}

Result<void> square_sum(tensor::Stream&, tensor::Workspace&, const ops::SquareSumArgs& args) {
  *args.sum =
      GPUNODE_PICK(square_sum)(args.x.data, static_cast<std::size_t>(args.x.element_count()));
  return {};
}

}  // namespace gpunode::cpu
