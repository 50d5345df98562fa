// Matrix products by cuBLASLt, in bf16 on factors that a kernel of ours has rounded. Those of weights
// are rounded once a step, for all its slices.
#include "kernels/cuda/toolkit/on_stream.hpp"
#include "kernels/cuda/toolkit/operations.hpp"

namespace gpunode::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = 4 << 20, kBiasBytes = 1 << 20;

// Whether cuBLASLt's GELU will do: it is the tanh form, of an accuracy that is not told, so fp32 has
// a kernel of ours behind the product. What it keeps has rows of eights, at 16 bytes.
bool has_library_gelu(const ops::MatmulArgs& args) {
  const bool fits = !args.before || (args.before.shape[1] % 8 == 0 &&
                                     reinterpret_cast<std::uintptr_t>(args.before.data) % 16 == 0);
  return args.gelu == ops::GeluForm::tanh && args.precision != Precision::fp32 && fits;
}

}  // namespace

Result<void> matmul(tensor::Stream& stream, tensor::Workspace& workspace,
                    const ops::MatmulArgs& args) {
  using Steps = ProductInPrecision<OnStream>;
  Context& context = own(stream).context();
  if (auto done = context.activate(); !done) return done;
  // The library takes another kernel for another M; ours sums every entry in order.
  if (args.independent_rows) return Steps::multiply(stream, workspace, args);
  tensor::Workspace::Scope scope(workspace);
  const auto rounded = Steps::rounded_factors(stream, workspace, args);
  if (!rounded) return rounded.error();
  ProductOperands operands{.a = args.a.data, .b = args.b.data};
  if (args.precision == Precision::bf16)
    operands = {.a = rounded->a, .b = rounded->b, .type = CUDA_R_16BF};
  if (args.precision == Precision::tf32) operands.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  const auto scratch = own(stream).product_scratch(kWorkspaceBytes + kBiasBytes);
  if (!scratch) return scratch.error();
  operands.scratch = *scratch;
  operands.scratch_bytes = kWorkspaceBytes;
  ops::MatmulArgs given = args;
  // The library's kernels read a bias 16 bytes at a time, whatever they are told of alignments.
  if (args.bias && reinterpret_cast<std::uintptr_t>(args.bias.data) % 16 != 0) {
    const auto bytes = static_cast<std::size_t>(args.bias.element_count()) * sizeof(float);
    if (bytes > kBiasBytes) return Steps::multiply(stream, workspace, args);
    auto* place = static_cast<std::byte*>(*scratch) + kWorkspaceBytes;
    auto copied = check(cudaMemcpyAsync(place, args.bias.data, bytes, cudaMemcpyDeviceToDevice,
                                        own(stream).stream()),
                        "copying a product's bias");
    if (!copied) return copied;
    given.bias.data = reinterpret_cast<const float*>(place);
  }
  const auto queue = [&](const ops::MatmulArgs& product) -> Result<void> {
    auto done =
        queue_product(*context.cublas, context.algorithms, product, operands, own(stream).stream());
    // The library tells a lost GPU by a status of its own.
    if (!done && done.error().code == ErrorCode::internal)
      if (auto gpu = check(cudaStreamQuery(own(stream).stream()), "a product");
          !gpu && gpu.error().code == ErrorCode::device_lost)
        return gpu;
    return done;
  };
  if (!args.gelu) return queue(given);
  if (has_library_gelu(args)) {
    const auto done = queue(given);
    if (done || done.error().code != ErrorCode::unsupported) return done;
  }
  return Steps::before_gelu(stream, workspace, given, queue);
}

}  // namespace gpunode::cuda
