#include "kernels/ops/relu.hpp"

#include "kernels/cpu/operations.hpp"

#define GPUNODE_ISA_BODY "kernels/cpu/detail/relu_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {

Result<void> relu(tensor::Stream&, tensor::Workspace&, const ops::ReluArgs& args) {
  GPUNODE_CHECK(args.x.element_count() == args.y.element_count(), "relu: sizes differ");
  GPUNODE_PICK(relu)(args.x.data, args.y.data, static_cast<std::size_t>(args.x.element_count()));
  return {};
}

Result<void> relu_backward(tensor::Stream&, tensor::Workspace&, const ops::ReluBackwardArgs& args) {
  const std::int64_t count = args.y.element_count();
  GPUNODE_CHECK(args.dy.element_count() == count && args.dx.element_count() == count,
                "relu_backward: sizes differ");
  GPUNODE_PICK(relu_backward)
  (args.dy.data, args.y.data, args.dx.data, static_cast<std::size_t>(count));
  return {};
}

}  // namespace gpunode::cpu
