#include "kernels/ops/layernorm.hpp"

#include "kernels/cpu/operations.hpp"

#define GPUNODE_ISA_BODY "kernels/cpu/detail/layernorm_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {
namespace {

struct Extents {
  std::size_t rows, columns;
};

Extents extents_of(const tensor::ConstTensor& x, const tensor::ConstTensor& weight) {
  const std::int64_t columns = weight.element_count();
  GPUNODE_CHECK(columns > 0 && x.element_count() % columns == 0,
                "layernorm: " + x.shape.text() + " does not end in " + weight.shape.text());
  return {static_cast<std::size_t>(x.element_count() / columns), static_cast<std::size_t>(columns)};
}

}  // namespace

Result<void> layernorm(tensor::Stream&, tensor::Workspace&, const ops::LayernormArgs& args) {
  const Extents extents = extents_of(args.x, args.weight);
  GPUNODE_CHECK(args.y.element_count() == args.x.element_count(), "layernorm: sizes differ");
  GPUNODE_PICK(layernorm)
  (args.x.data, args.weight.data, args.bias.data, args.y.data, args.mean.data, args.rstd.data,
   extents.rows, extents.columns, args.epsilon);
  return {};
}

Result<void> layernorm_backward(tensor::Stream&, tensor::Workspace&,
                                const ops::LayernormBackwardArgs& args) {
  const Extents extents = extents_of(args.x, args.weight);
  GPUNODE_CHECK(args.dx.element_count() == args.x.element_count(), "layernorm: sizes differ");
  GPUNODE_PICK(layernorm_backward)
  (args.dy.data, args.x.data, args.weight.data, args.mean.data, args.rstd.data, args.dx.data,
   args.dweight.data, args.dbias.data, extents.rows, extents.columns);
  return {};
}

}  // namespace gpunode::cpu
