#include "kernels/ops/tanh.hpp"

#include "kernels/cpu/operations.hpp"

#define GPUNODE_ISA_BODY "kernels/cpu/detail/tanh_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {

Result<void> tanh(tensor::Stream&, tensor::Workspace&, const ops::TanhArgs& args) {
  GPUNODE_CHECK(args.x.element_count() == args.y.element_count(), "tanh: sizes differ");
  GPUNODE_PICK(tanh)(args.x.data, args.y.data, static_cast<std::size_t>(args.x.element_count()));
  return {};
}

Result<void> tanh_backward(tensor::Stream&, tensor::Workspace&, const ops::TanhBackwardArgs& args) {
  const std::int64_t count = args.y.element_count();
  GPUNODE_CHECK(args.dy.element_count() == count && args.dx.element_count() == count,
                "tanh_backward: sizes differ");
  GPUNODE_PICK(tanh_backward)
  (args.dy.data, args.y.data, args.dx.data, static_cast<std::size_t>(count));
  return {};
}

}  // namespace gpunode::cpu
