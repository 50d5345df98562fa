// Matrix products by cuBLASLt, in bf16 on factors that a kernel of ours has rounded. Those of weights
// are rounded once a step, for all its slices.
#include "kernels/cuda/toolkit/on_stream.hpp"
#include "kernels/cuda/toolkit/operations.hpp"

namespace gpunode::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = 4 << 20;

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
  tensor::Workspace::Scope scope(workspace);
  const auto rounded = Steps::rounded_factors(stream, workspace, args);
  if (!rounded) return rounded.error();
  ProductOperands operands{.a = args.a.data, .b = args.b.data};
  if (args.precision == Precision::bf16)
    operands = {.a = rounded->a, .b = rounded->b, .type = CUDA_R_16BF};
  if (args.precision == Precision::tf32) operands.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  operands.scratch = workspace.take_bytes(kWorkspaceBytes);
  operands.scratch_bytes = operands.scratch ? kWorkspaceBytes : 0;
  const auto queue = [&](const ops::MatmulArgs& product) {
    return queue_product(*context.cublas, context.algorithms, product, operands,
                         own(stream).stream());
  };
  if (!args.gelu) return queue(args);
  if (has_library_gelu(args)) {
    const auto done = queue(args);
    if (done || done.error().code != ErrorCode::unsupported) return done;
  }
  return Steps::before_gelu(stream, workspace, args, queue);
}

}  // namespace gpunode::cuda
