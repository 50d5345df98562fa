// Matrix products: oneDNN's sgemm, but for few rows times weights that no cache holds. Those it packs
// again in each call; read through once they cost two thirds of the time.
#include "kernels/ops/matmul.hpp"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

#include <memory>

#include "kernels/cpu/detail/independent_rows.hpp"
#include "kernels/cpu/detail/onednn.hpp"
#include "kernels/cpu/operations.hpp"

namespace gpunode::cpu {

// y (M, N) = x (M, K) w (N, K)^T + bias
struct FewRows {
  static constexpr std::size_t kTogether = 128;  // rows of x that are packed at a time
  const float *x, *w, *bias;                     // bias may be null
  float *y, *scratch;                            // (kTogether * K)
  std::size_t rows, columns, inner;
};

}  // namespace gpunode::cpu

#define GPUNODE_ISA_BODY "kernels/cpu/detail/matmul_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {
namespace {

// Whether weights are large and rows are such that panels of 32 of them are mostly full: where the
// product through the weights is faster than packing them.
bool goes_through(std::size_t rows, std::size_t columns, std::size_t inner) {
  constexpr std::size_t kFewRows = 160, kLargeWeights = 512 * 1024;
  const std::size_t padded = (rows + 31) / 32 * 32;
  return rows <= kFewRows && 4 * rows >= 3 * padded && columns * inner >= kLargeWeights;
}

// A thread's own panels, kept from call to call; it grows to the longest inner extent seen.
float* scratch_of(std::size_t inner) {
  constexpr std::size_t kAlignment = 64;
  struct Piece {
    std::unique_ptr<float[]> memory;
    std::size_t size = 0;
  };
  thread_local Piece piece;
  const std::size_t values = inner * FewRows::kTogether + kAlignment / sizeof(float);
  if (piece.size < values) {
    piece.memory.reset();
    piece.memory.reset(new float[values]);
    piece.size = values;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(piece.memory.get());
  return piece.memory.get() + (kAlignment - address % kAlignment) % kAlignment / sizeof(float);
}

// The product, then GELU of it from where it is kept, or in place.
Result<void> matmul_gelu(tensor::Stream& stream, tensor::Workspace& workspace,
                         const ops::MatmulArgs& args) {
  GPUNODE_CHECK(!args.accumulate, "matmul: what is added to has no GELU");
  GPUNODE_CHECK(!args.before || args.before.element_count() == args.c.element_count(),
                "matmul: sizes of what is before GELU and after it differ");
  ops::MatmulArgs product = args;
  product.gelu.reset();
  if (args.before) product.c = args.before;
  if (auto done = matmul(stream, workspace, product); !done) return done;
  return gelu(stream, workspace, {.x = product.c, .y = args.c, .form = *args.gelu});
}

}  // namespace

void work_alone() {
  thread_local const bool alone = [] {
    using SetThreads = void (*)(int);
    if (auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(1);
    return true;
  }();
  static_cast<void>(alone);
}

Result<void> matmul(tensor::Stream& stream, tensor::Workspace& workspace,
                    const ops::MatmulArgs& args) {
  if (args.gelu) return matmul_gelu(stream, workspace, args);
  const std::int64_t rows = args.transpose_a ? args.a.shape[1] : args.a.shape[0];
  const std::int64_t inner = args.transpose_a ? args.a.shape[0] : args.a.shape[1];
  const std::int64_t columns = args.transpose_b ? args.b.shape[0] : args.b.shape[1];
  GPUNODE_CHECK((args.transpose_b ? args.b.shape[1] : args.b.shape[0]) == inner &&
                    args.c.element_count() == rows * columns,
                "matmul: " + args.a.shape.text() + " x " + args.b.shape.text() + " -> " +
                    args.c.shape.text());
  if (args.independent_rows)
    return matmul_independent_rows(stream, args,
                                   {.rows = rows, .columns = columns, .inner = inner});
  if (args.precision == Precision::bf16)
    return matmul_bf16(stream, workspace, args, {.rows = rows, .columns = columns, .inner = inner});
  if (args.precision != Precision::fp32)
    return {ErrorCode::unsupported, "this processor has no products in " +
                                        std::string(to_string(args.precision)) +
                                        ": use precision fp32 or bf16"};
  const bool forward = args.transpose_b && !args.transpose_a && !args.accumulate;
  const auto M = static_cast<std::size_t>(rows), N = static_cast<std::size_t>(columns),
             K = static_cast<std::size_t>(inner);
  if (forward && current_isa() != Isa::portable && goes_through(M, N, K)) {
    GPUNODE_PICK(matmul_few_rows)
    ({args.a.data, args.b.data, args.bias.data, args.c.data, scratch_of(K), M, N, K});
    return {};
  }
  work_alone();
  const dnnl_status_t status =
      dnnl_sgemm(args.transpose_a ? 'T' : 'N', args.transpose_b ? 'T' : 'N', rows, columns, inner,
                 1.0f, args.a.data, args.a.shape[1], args.b.data, args.b.shape[1],
                 args.accumulate ? 1.0f : 0.0f, args.c.data, columns);
  if (status != dnnl_success)
    return {ErrorCode::internal, "oneDNN's matrix product failed with status " +
                                     std::to_string(static_cast<int>(status))};
  if (args.bias) add_row(args.bias, args.c);
  return {};
}

}  // namespace gpunode::cpu
