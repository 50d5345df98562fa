// A product in the precision that a job asks for: in bf16 of factors that a kernel rounds before it;
// with a kernel for GELU behind it. What multiplies is a kernel of ours here, and cuBLASLt in
// matmul.cpp.
#pragma once

#include "kernels/cuda/toolkit/kernel_work.hpp"

namespace gpunode::cuda {

template <class Runner>
class ProductInPrecision {
 public:
  static Result<void> multiply(tensor::Stream& stream, tensor::Workspace& workspace,
                               const ops::MatmulArgs& args) {
    if (args.precision == Precision::tf32)
      return {ErrorCode::unsupported,
              "products in tf32 are cuBLASLt's, which is not on this machine: use fp32 or bf16"};
    tensor::Workspace::Scope scope(workspace);
    const auto rounded = rounded_factors(stream, workspace, args);
    if (!rounded) return rounded.error();
    const auto run = [&](const ops::MatmulArgs& product) {
      if (args.precision == Precision::bf16)
        return Runner::template run<"product in bf16", rounded_product_work>(
            stream, workspace, RoundedProduct{product, rounded->a, rounded->b});
      return Runner::template run<"product", product_work>(stream, workspace, product);
    };
    return args.gelu ? before_gelu(stream, workspace, args, run) : run(args);
  }

  static Result<void> pack(tensor::Stream& stream, tensor::Workspace& workspace,
                           const ops::PackProductArgs& args) {
    if (args.part > 0) return {};  // the first one does it all
    return round_to(stream, workspace, args.b, args.out);
  }

  // Factors in bf16 as they are given; null in other precisions.
  struct Rounded {
    const std::uint16_t *a = nullptr, *b = nullptr;
  };
  // Weights that are packed are rounded already; what is not is rounded into the workspace.
  // Fails with: out_of_memory, internal.
  static Result<Rounded> rounded_factors(tensor::Stream& stream, tensor::Workspace& workspace,
                                         const ops::MatmulArgs& args) {
    if (args.precision != Precision::bf16) return Rounded{};
    const auto a = rounded(stream, workspace, args.a);
    if (!a) return a.error();
    if (!args.packed_b.empty())
      return Rounded{*a, reinterpret_cast<const std::uint16_t*>(args.packed_b.data())};
    const auto b = rounded(stream, workspace, args.b);
    if (!b) return b.error();
    return Rounded{*a, *b};
  }

  // The product by run(args), to where it is kept if it is, and GELU of it.
  template <class Run>
  static Result<void> before_gelu(tensor::Stream& stream, tensor::Workspace& workspace,
                                  const ops::MatmulArgs& args, Run run) {
    ops::MatmulArgs product = args;
    product.gelu.reset();
    product.before = {};
    if (args.before) product.c = args.before;
    if (auto done = run(product); !done) return done;
    return Runner::template run<"gelu", gelu_work>(
        stream, workspace, ops::GeluArgs{.x = product.c, .y = args.c, .form = *args.gelu});
  }

 private:
  // `values` as bf16, in the order in which they lie.
  static Result<void> round_to(tensor::Stream& stream, tensor::Workspace& workspace,
                               const tensor::ConstTensor& values, MutableByteView out) {
    const auto count = values.element_count();
    return Runner::template run<"rounding to bf16", pack_bf16_work>(
        stream, workspace,
        ops::PackArgs{.in = {values.data, {count}},
                      .out = out.first(ops::bf16_bytes(static_cast<std::size_t>(count)))});
  }

  static Result<const std::uint16_t*> rounded(tensor::Stream& stream, tensor::Workspace& workspace,
                                              const tensor::ConstTensor& factor) {
    const auto count = static_cast<std::size_t>(factor.element_count());
    auto* place = workspace.take<std::uint16_t>(count);
    if (!place)
      return Error{ErrorCode::out_of_memory, "a product in bf16: the workspace is too small"};
    const MutableByteView out(reinterpret_cast<std::byte*>(place), ops::bf16_bytes(count));
    if (auto done = round_to(stream, workspace, factor, out); !done) return done.error();
    return static_cast<const std::uint16_t*>(place);
  }
};

}  // namespace gpunode::cuda
