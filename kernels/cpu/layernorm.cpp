#include "kernels/ops/layernorm.hpp"

#include "kernels/cpu/operations.hpp"

namespace gpunode::cpu {

struct LayernormRows {
  const float *x, *residual, *weight, *bias;  // residual: null if absent
  float *sum, *y, *mean, *rstd;
  std::size_t count, columns;
  float epsilon;
};

}  // namespace gpunode::cpu

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
  GPUNODE_CHECK(!args.residual || (args.residual.element_count() == args.x.element_count() &&
                                   args.sum.element_count() == args.x.element_count()),
                "layernorm: the residual's size differs");
  GPUNODE_PICK(layernorm)
  ({.x = args.x.data,
    .residual = args.residual.data,
    .weight = args.weight.data,
    .bias = args.bias.data,
    .sum = args.sum.data,
    .y = args.y.data,
    .mean = args.mean.data,
    .rstd = args.rstd.data,
    .count = extents.rows,
    .columns = extents.columns,
    .epsilon = args.epsilon});
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
