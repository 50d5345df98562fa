#include "kernels/ops/add.hpp"

#include "kernels/cpu/operations.hpp"

#define GPUNODE_ISA_BODY "kernels/cpu/detail/add_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {

Result<void> add(tensor::Stream&, tensor::Workspace&, const ops::AddArgs& args) {
  const auto count = static_cast<std::size_t>(args.out.element_count());
  GPUNODE_CHECK(args.a.element_count() == args.out.element_count() &&
                    args.b.element_count() == args.out.element_count(),
                "add: sizes differ");
  if (args.c)
    GPUNODE_PICK(add_three)(args.a.data, args.b.data, args.c.data, args.out.data, count);
  else
    GPUNODE_PICK(add)(args.a.data, args.b.data, args.out.data, count);
  return {};
}

Result<void> column_sum(tensor::Stream&, tensor::Workspace&, const ops::ColumnSumArgs& args) {
  const std::int64_t columns = args.out.element_count();
  GPUNODE_CHECK(columns > 0 && args.x.element_count() % columns == 0,
                "column_sum: shapes do not fit");
  const std::int64_t rows = args.x.element_count() / columns;
  sum_rows({args.x.data, {rows, columns}}, ops::sum_block(rows), args.out);
  return {};
}

void sum_rows(tensor::ConstTensor x, std::int64_t block, tensor::Tensor out) {
  GPUNODE_PICK(column_sum)
  (x.data, out.data, static_cast<std::size_t>(x.shape[0]), static_cast<std::size_t>(x.shape[1]),
   static_cast<std::size_t>(block));
}

void add_row(tensor::ConstTensor row, tensor::Tensor out) {
  const auto columns = static_cast<std::size_t>(row.element_count());
  const auto count = static_cast<std::size_t>(out.element_count());
  GPUNODE_CHECK(columns > 0 && count % columns == 0, "add_row: shapes do not fit");
  GPUNODE_PICK(add_row)(row.data, out.data, count / columns, columns);
}

}  // namespace gpunode::cpu
