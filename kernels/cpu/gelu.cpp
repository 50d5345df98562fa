#include "kernels/ops/gelu.hpp"

#include "kernels/cpu/operations.hpp"

#define GPUNODE_ISA_BODY "kernels/cpu/detail/gelu_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {

Result<void> gelu(tensor::Stream&, tensor::Workspace&, const ops::GeluArgs& args) {
  GPUNODE_CHECK(args.x.element_count() == args.y.element_count(), "gelu: sizes differ");
  const auto work = args.form == ops::GeluForm::erf ? GPUNODE_PICK(gelu_erf) : GPUNODE_PICK(gelu);
  work(args.x.data, args.y.data, static_cast<std::size_t>(args.x.element_count()));
  return {};
}

Result<void> gelu_backward(tensor::Stream&, tensor::Workspace&, const ops::GeluBackwardArgs& args) {
  const std::int64_t count = args.x.element_count();
  GPUNODE_CHECK(args.dy.element_count() == count && args.dx.element_count() == count,
                "gelu_backward: sizes differ");
  const auto work = args.form == ops::GeluForm::erf ? GPUNODE_PICK(gelu_erf_backward)
                                                    : GPUNODE_PICK(gelu_backward);
  work(args.dy.data, args.x.data, args.dx.data, static_cast<std::size_t>(count));
  return {};
}

}  // namespace gpunode::cpu
