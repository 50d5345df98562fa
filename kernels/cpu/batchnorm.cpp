#include "kernels/ops/batchnorm.hpp"

#include <cstddef>

#include "kernels/cpu/operations.hpp"

namespace gpunode::cpu {

struct BatchnormSlopes {
  const float *weight, *mean, *rstd, *dweight, *dbias;  // (C)
};

}  // namespace gpunode::cpu

#define GPUNODE_ISA_BODY "kernels/cpu/detail/batchnorm_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {
namespace {

struct Extents {
  std::size_t rows, columns;
};

Extents extents_of(const tensor::ConstTensor& x, const tensor::ConstTensor& weight,
                   const tensor::ConstTensor& other) {
  const std::int64_t columns = weight.element_count();
  GPUNODE_CHECK(columns > 0 && x.element_count() > 0 && x.element_count() % columns == 0 &&
                    other.element_count() == x.element_count(),
                "batchnorm: " + x.shape.text() + " does not end in " + weight.shape.text());
  return {static_cast<std::size_t>(x.element_count() / columns), static_cast<std::size_t>(columns)};
}

}  // namespace

Result<void> batchnorm(tensor::Stream&, tensor::Workspace&, const ops::BatchnormArgs& args) {
  const auto [rows, columns] = extents_of(args.x, args.weight, args.y);
  const auto set_rstd = GPUNODE_PICK(batchnorm_rstd);
  if (args.running_mean) {
    std::copy_n(args.running_mean.data, columns, args.mean.data);
    set_rstd(args.running_variance.data, args.rstd.data, columns, 1.0f, args.epsilon);
  } else {
    GPUNODE_PICK(batchnorm_sums)(args.x.data, args.mean.data, args.rstd.data, rows, columns);
    set_rstd(args.rstd.data, args.rstd.data, columns, 1.0f / static_cast<float>(rows),
             args.epsilon);
  }
  GPUNODE_PICK(batchnorm_apply)
  (args.x.data, args.weight.data, args.bias.data, args.mean.data, args.rstd.data, args.y.data, rows,
   columns);
  return {};
}

Result<void> batchnorm_backward(tensor::Stream&, tensor::Workspace&,
                                const ops::BatchnormBackwardArgs& args) {
  const auto [rows, columns] = extents_of(args.x, args.weight, args.dx);
  GPUNODE_CHECK(args.dy.element_count() == args.x.element_count(), "batchnorm: sizes differ");
  GPUNODE_PICK(batchnorm_sums_backward)
  (args.dy.data, args.x.data, args.mean.data, args.rstd.data, args.dweight.data, args.dbias.data,
   rows, columns);
  const BatchnormSlopes slopes{args.weight.data, args.mean.data, args.rstd.data, args.dweight.data,
                               args.dbias.data};
  GPUNODE_PICK(batchnorm_input)
  (args.dy.data, args.x.data, slopes, args.dx.data, rows, columns);
  return {};
}

}  // namespace gpunode::cpu
