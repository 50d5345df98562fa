// Matrix products on a GPU: cuBLASLt's, in bf16 on factors that a kernel of ours has rounded. Those of
// weights are rounded once a step, for all its slices.
#include "kernels/cuda/toolkit/cuda_context.hpp"
#include "kernels/cuda/toolkit/kernel_work.hpp"
#include "kernels/cuda/toolkit/operations.hpp"

namespace gpunode::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = 4 << 20;

// `values` as bf16, in the order in which they lie.
Result<void> round_to(tensor::Stream& stream, tensor::Workspace& workspace,
                      const tensor::ConstTensor& values, MutableByteView out) {
  const auto count = values.element_count();
  return start_work<pack_bf16_work>(
      workspace,
      ops::PackArgs{.in = {values.data, {count}},
                    .out = out.first(ops::bf16_bytes(static_cast<std::size_t>(count)))},
      [&](const auto& work) {
        return check(launch(work, own(stream).stream()), "rounding to bf16");
      });
}

// A factor as bf16 in the workspace. Fails with: out_of_memory, internal.
Result<const void*> rounded(tensor::Stream& stream, tensor::Workspace& workspace,
                            const tensor::ConstTensor& factor) {
  const std::size_t bytes = ops::bf16_bytes(static_cast<std::size_t>(factor.element_count()));
  auto* place = workspace.take<std::byte>(bytes);
  if (!place)
    return Error{ErrorCode::out_of_memory, "a product in bf16: the workspace is too small"};
  if (auto done = round_to(stream, workspace, factor, {place, bytes}); !done) return done.error();
  return static_cast<const void*>(place);
}

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
  Context& context = own(stream).context();
  if (auto done = context.activate(); !done) return done;
  tensor::Workspace::Scope scope(workspace);
  ProductOperands operands{.a = args.a.data, .b = args.b.data};
  if (args.precision == Precision::bf16) {
    auto a = rounded(stream, workspace, args.a);
    if (!a) return a.error();
    operands.a = *a;
    operands.b = args.packed_b.data();
    if (args.packed_b.empty()) {
      auto b = rounded(stream, workspace, args.b);
      if (!b) return b.error();
      operands.b = *b;
    }
    operands.type = CUDA_R_16BF;
  }
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
  ops::MatmulArgs product = args;
  product.gelu.reset();
  product.before = {};
  if (args.before) product.c = args.before;
  if (auto done = queue(product); !done) return done;
  return start_work<gelu_work>(
      workspace, ops::GeluArgs{.x = product.c, .y = args.c, .form = *args.gelu},
      [&](const auto& work) { return check(launch(work, own(stream).stream()), "gelu"); });
}

Result<void> pack_product(tensor::Stream& stream, tensor::Workspace& workspace,
                          const ops::PackProductArgs& args) {
  if (auto done = own(stream).context().activate(); !done) return done;
  if (args.part > 0) return {};  // the first one does it all
  return round_to(stream, workspace, args.b, args.out);
}

}  // namespace gpunode::cuda
