#include "kernels/ops/swiglu.hpp"

#include "kernels/cpu/operations.hpp"

#define GPUNODE_ISA_BODY "kernels/cpu/detail/swiglu_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {
namespace {

struct Extents {
  std::size_t rows, columns;  // of y
};

Extents extents_of(const tensor::ConstTensor& x, const tensor::ConstTensor& y) {
  const std::int64_t count = y.element_count();
  const std::int64_t columns = y.shape.rank() == 0 ? 0 : y.shape[y.shape.rank() - 1];
  GPUNODE_CHECK(columns > 0 && x.element_count() == 2 * count,
                "swiglu: " + x.shape.text() + " -> " + y.shape.text());
  return {static_cast<std::size_t>(count / columns), static_cast<std::size_t>(columns)};
}

}  // namespace

Result<void> swiglu(tensor::Stream&, tensor::Workspace&, const ops::SwigluArgs& args) {
  const Extents extents = extents_of(args.x, args.y);
  GPUNODE_PICK(swiglu)(args.x.data, args.y.data, extents.rows, extents.columns);
  return {};
}

Result<void> swiglu_backward(tensor::Stream&, tensor::Workspace&,
                             const ops::SwigluBackwardArgs& args) {
  const Extents extents = extents_of(args.x, args.dy);
  GPUNODE_CHECK(args.dx.element_count() == args.x.element_count(), "swiglu: sizes differ");
  GPUNODE_PICK(swiglu_backward)
  (args.dy.data, args.x.data, args.dx.data, extents.rows, extents.columns);
  return {};
}

}  // namespace gpunode::cpu
