// Products for answering: each row's bits are its own, all cores take part.
#include "kernels/cpu/detail/independent_rows.hpp"

#include <memory>

#include "kernels/cpu/detail/cpu_stream.hpp"

#define GPUNODE_ISA_BODY "kernels/cpu/detail/independent_rows_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {
namespace {

// A thread's own packed rows, kept from call to call.
float* packing_scratch() {
  struct alignas(64) Piece {
    float values[RowProduct::kScratch];
  };
  thread_local const std::unique_ptr<Piece> piece(new Piece);
  return piece->values;
}

// Columns that a thread takes at a time, whole tiles of them: several pieces a thread, as one may be
// slower than another; each packs x again, so they are not small, and fewer where x has many rows.
std::size_t columns_of_part(std::size_t rows, std::size_t columns, int threads) {
  constexpr std::size_t kPartsOfThread = 4, kManyRows = 2 * RowProduct::kTogether, kLeast = 2;
  const std::size_t groups =
      (columns + RowProduct::kColumnsTogether - 1) / RowProduct::kColumnsTogether;
  const std::size_t parts =
      (rows < kManyRows ? kPartsOfThread : 2) * static_cast<std::size_t>(threads);
  return RowProduct::kColumnsTogether * std::max(kLeast, (groups + parts - 1) / parts);
}

}  // namespace

Result<void> matmul_independent_rows(tensor::Stream& stream, const ops::MatmulArgs& args,
                                     const ops::MatmulExtents& extents) {
  GPUNODE_CHECK(args.transpose_b && !args.transpose_a && !args.accumulate &&
                    args.precision == Precision::fp32,
                "matmul: rows are independent where weights are (N, K), in fp32, not accumulating");
  const RowProduct product{.x = args.a.data,
                           .w = args.b.data,
                           .bias = args.bias.data,
                           .y = args.c.data,
                           .rows = static_cast<std::size_t>(extents.rows),
                           .columns = static_cast<std::size_t>(extents.columns),
                           .inner = static_cast<std::size_t>(extents.inner),
                           .format = args.weights,
                           .packed = args.packed_b.data()};
  const auto multiply = GPUNODE_PICK(multiply_independent_rows);
  constexpr std::size_t kWorthATeam = 1 << 17;  // multiply-adds: some microseconds
  ThreadTeam* team = team_of(stream);
  if (!team || product.rows * product.columns * product.inner < kWorthATeam) {
    multiply(product, 0, product.columns, packing_scratch());
    return {};
  }
  const std::size_t each = columns_of_part(product.rows, product.columns, team->threads());
  team->run(static_cast<int>((product.columns + each - 1) / each), [&](int part) {
    const std::size_t begin = static_cast<std::size_t>(part) * each;
    multiply(product, begin, std::min(product.columns, begin + each), packing_scratch());
  });
  return {};
}

}  // namespace gpunode::cpu
