#include "kernels/ops/adamw.hpp"

#include "kernels/cpu/operations.hpp"

#define GPUNODE_ISA_BODY "kernels/cpu/detail/adamw_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {
namespace {

template <class Constants>
Constants constants_of(const ops::AdamwArgs& args) {
  return {args.scale,   args.rate,  args.beta1,    args.beta2,
          args.epsilon, args.decay, args.upscale1, args.upscale2};
}

template <class Constants>
void run(void (*kernel)(const Constants&, const float*, float*, float*, float*, std::size_t),
         const ops::AdamwArgs& args) {
  kernel(constants_of<Constants>(args), args.gradient.data, args.weights.data, args.first.data,
         args.second.data, static_cast<std::size_t>(args.gradient.element_count()));
}

}  // namespace

Result<void> adamw(tensor::Stream&, tensor::Workspace&, const ops::AdamwArgs& args) {
  GPUNODE_CHECK(args.gradient.element_count() == args.weights.element_count(),
                "adamw: sizes differ");
  switch (current_isa()) {
    case Isa::avx512:
      run(avx512::adamw, args);
      break;
    case Isa::avx2:
      run(avx2::adamw, args);
      break;
    case Isa::portable:
      run(portable::adamw, args);
      break;
  }
  return {};
}

Result<void> square_sum(tensor::Stream&, tensor::Workspace&, const ops::SquareSumArgs& args) {
  *args.sum =
      GPUNODE_PICK(square_sum)(args.x.data, static_cast<std::size_t>(args.x.element_count()));
  return {};
}

}  // namespace gpunode::cpu
