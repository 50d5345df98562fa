// Attention in the precision that a job asks for: in bf16 on tensor cores, around which operands are
// rounded and results brought back; in float32 elsewhere, and for heads that tensor cores do not fit.
#pragma once

#include "kernels/cuda/toolkit/kernel_work.hpp"

namespace gpunode::cuda {

template <class Runner>
class AttentionInPrecision {
 public:
  static Result<void> forward(tensor::Stream& stream, tensor::Workspace& workspace,
                              const ops::AttentionArgs& args) {
    if (!on_tensor_cores(args.qkv, args))
      return Runner::template run<"attention", attention_work>(stream, workspace, args);
    tensor::Workspace::Scope scope(workspace);
    const Site site{stream, workspace};
    auto qkv = rounded(site, args.qkv);
    if (!qkv) return qkv.error();
    auto out = place_for(site, args.out.element_count());
    if (!out) return out.error();
    auto done = Runner::template run<"attention in bf16", rounded_attention_work>(
        stream, workspace, RoundedAttention{args, *qkv, *out});
    return done ? bring_back(site, *out, args.out) : done;
  }

  static Result<void> backward(tensor::Stream& stream, tensor::Workspace& workspace,
                               const ops::AttentionBackwardArgs& args) {
    if (!on_tensor_cores(args.qkv, args))
      return Runner::template run<"attention_backward", attention_backward_work>(stream, workspace,
                                                                                 args);
    tensor::Workspace::Scope scope(workspace);
    const Site site{stream, workspace};
    auto dout = rounded(site, args.dout), out = rounded(site, args.out),
         qkv = rounded(site, args.qkv);
    for (const auto* one : {&dout, &out, &qkv})
      if (!*one) return one->error();
    auto dqkv = place_for(site, args.dqkv.element_count());
    if (!dqkv) return dqkv.error();
    auto done = Runner::template run<"attention_backward in bf16", rounded_attention_backward_work>(
        stream, workspace, RoundedAttentionBackward{args, *dout, *out, *qkv, *dqkv});
    return done ? bring_back(site, *dqkv, args.dqkv) : done;
  }

 private:
  struct Site {
    tensor::Stream& stream;
    tensor::Workspace& workspace;
  };

  static bool on_tensor_cores(const tensor::ConstTensor& qkv, const auto& args) {
    if (args.precision != Precision::bf16) return false;
    const auto extents = attention_extents(qkv.shape, args);
    return extents && extents->depth % 8 == 0;
  }

  // Fails with: out_of_memory.
  static Result<std::uint16_t*> place_for(const Site& site, std::int64_t count) {
    auto* place = site.workspace.template take<std::uint16_t>(static_cast<std::size_t>(count));
    if (place) return place;
    return Error{ErrorCode::out_of_memory, "attention in bf16: the workspace is too small"};
  }
  static std::size_t bytes_of(std::int64_t count) {
    return ops::bf16_bytes(static_cast<std::size_t>(count));
  }

  static Result<std::uint16_t*> rounded(const Site& site, const tensor::ConstTensor& from) {
    const std::int64_t count = from.element_count();
    auto place = place_for(site, count);
    if (!place) return place;
    const MutableByteView out(reinterpret_cast<std::byte*>(*place), bytes_of(count));
    auto done = Runner::template run<"rounding to bf16", pack_bf16_work>(
        site.stream, site.workspace, ops::PackArgs{.in = {from.data, {count}}, .out = out});
    if (!done) return done.error();
    return place;
  }

  static Result<void> bring_back(const Site& site, const std::uint16_t* from,
                                 const tensor::Tensor& to) {
    const std::int64_t count = to.element_count();
    const ByteView in(reinterpret_cast<const std::byte*>(from), bytes_of(count));
    return Runner::template run<"floats of bf16", unpack_bf16_work>(
        site.stream, site.workspace, ops::UnpackArgs{.in = in, .out = {to.data, {count}}});
  }
};

}  // namespace gpunode::cuda
