#include "kernels/ops/batchnorm.hpp"

#include <algorithm>
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

// The first span's sums go to where all of them are to be, the others' to `parts` (2, C) and
// from there to the first's: sums(first row, count, place, place), join(first row, count).
template <class Sums, class Join>
Result<void> over_spans(tensor::Workspace& workspace, const Extents& e, float* one, float* two,
                        Sums sums, Join join) {
  constexpr auto kSpan = static_cast<std::size_t>(ops::kBatchnormSpan);
  tensor::Workspace::Scope scope(workspace);
  float* parts = e.rows > kSpan ? workspace.take<float>(2 * e.columns) : nullptr;
  if (e.rows > kSpan && !parts)
    return {ErrorCode::out_of_memory, "batchnorm: the workspace is too small"};
  sums(0, std::min(kSpan, e.rows), one, two);
  for (std::size_t first = kSpan; first < e.rows; first += kSpan) {
    const std::size_t count = std::min(kSpan, e.rows - first);
    sums(first, count, parts, parts + e.columns);
    join(first, count, parts);
  }
  return {};
}

}  // namespace

Result<void> batchnorm(tensor::Stream&, tensor::Workspace& workspace,
                       const ops::BatchnormArgs& args) {
  const Extents extents = extents_of(args.x, args.weight, args.y);
  const auto [rows, columns] = extents;
  const auto set_rstd = GPUNODE_PICK(batchnorm_rstd);
  if (args.running_mean) {
    std::copy_n(args.running_mean.data, columns, args.mean.data);
    set_rstd(args.running_variance.data, args.rstd.data, columns, 1.0f, args.epsilon);
  } else {
    float *mean = args.mean.data, *squares = args.rstd.data;
    auto done = over_spans(
        workspace, extents, mean, squares,
        [&](std::size_t first, std::size_t count, float* center, float* offsets) {
          GPUNODE_PICK(batchnorm_sums)
          (args.x.data + first * extents.columns, center, offsets, count, extents.columns);
        },
        [&](std::size_t first, std::size_t count, const float* parts) {
          GPUNODE_PICK(batchnorm_join)(parts, mean, squares, first, count, extents.columns);
        });
    if (!done) return done;
    set_rstd(args.rstd.data, args.rstd.data, columns, 1.0f / static_cast<float>(rows),
             args.epsilon);
  }
  GPUNODE_PICK(batchnorm_apply)
  (args.x.data, args.weight.data, args.bias.data, args.mean.data, args.rstd.data, args.y.data, rows,
   columns);
  return {};
}

Result<void> batchnorm_backward(tensor::Stream&, tensor::Workspace& workspace,
                                const ops::BatchnormBackwardArgs& args) {
  const Extents extents = extents_of(args.x, args.weight, args.dx);
  const auto [rows, columns] = extents;
  GPUNODE_CHECK(args.dy.element_count() == args.x.element_count(), "batchnorm: sizes differ");
  auto done = over_spans(
      workspace, extents, args.dweight.data, args.dbias.data,
      [&](std::size_t first, std::size_t count, float* dweight, float* dbias) {
        const std::size_t at = first * extents.columns;
        GPUNODE_PICK(batchnorm_sums_backward)
        (args.dy.data + at, args.x.data + at, args.mean.data, args.rstd.data, dweight, dbias, count,
         extents.columns);
      },
      [&](std::size_t, std::size_t, const float* parts) {
        GPUNODE_PICK(batchnorm_add)(parts, args.dweight.data, extents.columns);
        GPUNODE_PICK(batchnorm_add)(parts + extents.columns, args.dbias.data, extents.columns);
      });
  if (!done) return done;
  const BatchnormSlopes slopes{args.weight.data, args.mean.data, args.rstd.data, args.dweight.data,
                               args.dbias.data};
  GPUNODE_PICK(batchnorm_input)
  (args.dy.data, args.x.data, slopes, args.dx.data, rows, columns);
  return {};
}

}  // namespace gpunode::cpu
