#include "kernels/ops/rmsnorm.hpp"

#include "kernels/cpu/operations.hpp"

namespace gpunode::cpu {

struct RmsnormRows {
  const float *x, *residual, *weight;  // residual: null if absent
  float *sum, *y, *rstd;
  std::size_t count, columns;
  float epsilon;
};

}  // namespace gpunode::cpu

#define GPUNODE_ISA_BODY "kernels/cpu/detail/rmsnorm_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {
namespace {

struct Extents {
  std::size_t rows, columns;
};

Extents extents_of(const tensor::ConstTensor& x, const tensor::ConstTensor& weight,
                   const tensor::ConstTensor& other) {
  const std::int64_t columns = weight.element_count();
  GPUNODE_CHECK(columns > 0 && x.element_count() % columns == 0,
                "rmsnorm: " + x.shape.text() + " does not end in " + weight.shape.text());
  GPUNODE_CHECK(other.element_count() == x.element_count(), "rmsnorm: sizes differ");
  return {static_cast<std::size_t>(x.element_count() / columns), static_cast<std::size_t>(columns)};
}

}  // namespace

Result<void> rmsnorm(tensor::Stream&, tensor::Workspace&, const ops::RmsnormArgs& args) {
  const Extents extents = extents_of(args.x, args.weight, args.y);
  GPUNODE_CHECK(!args.residual || (args.residual.element_count() == args.x.element_count() &&
                                   args.sum.element_count() == args.x.element_count()),
                "rmsnorm: the residual's size differs");
  GPUNODE_PICK(rmsnorm)
  ({.x = args.x.data,
    .residual = args.residual.data,
    .weight = args.weight.data,
    .sum = args.sum.data,
    .y = args.y.data,
    .rstd = args.rstd.data,
    .count = extents.rows,
    .columns = extents.columns,
    .epsilon = args.epsilon});
  return {};
}

Result<void> rmsnorm_backward(tensor::Stream&, tensor::Workspace&,
                              const ops::RmsnormBackwardArgs& args) {
  const Extents extents = extents_of(args.x, args.weight, args.dx);
  GPUNODE_PICK(rmsnorm_backward)
  (args.dy.data, args.x.data, args.weight.data, args.rstd.data, args.dx.data, args.dweight.data,
   extents.rows, extents.columns);
  return {};
}

}  // namespace gpunode::cpu
