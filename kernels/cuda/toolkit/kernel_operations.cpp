// The operations that run our own kernels: from tensors to what a launch takes.
#include "kernels/cuda/toolkit/cuda_context.hpp"
#include "kernels/cuda/toolkit/launch.hpp"
#include "kernels/cuda/toolkit/operations.hpp"

namespace gpunode::cuda {
namespace {

template <class Work>
Result<void> start(tensor::Stream& stream, const Work& work, const char* name) {
  if (auto done = own(stream).context().activate(); !done) return done;
  return check(launch(work, own(stream).stream()), name);
}

int rows_of(const tensor::ConstTensor& x, const tensor::ConstTensor& weight) {
  return static_cast<int>(x.element_count() / weight.element_count());
}

}  // namespace

Result<void> layernorm(tensor::Stream& stream, tensor::Workspace&, const ops::LayernormArgs& args) {
  return start(stream,
               LayernormLaunch{args.x.data, args.weight.data, args.bias.data, args.y.data,
                               args.mean.data, args.rstd.data, rows_of(args.x, args.weight),
                               static_cast<int>(args.weight.element_count()), args.epsilon},
               "layernorm");
}

Result<void> layernorm_backward(tensor::Stream& stream, tensor::Workspace&,
                                const ops::LayernormBackwardArgs& args) {
  return start(stream,
               LayernormBackwardLaunch{args.dy.data, args.x.data, args.weight.data, args.mean.data,
                                       args.rstd.data, args.dx.data, args.dweight.data,
                                       args.dbias.data, rows_of(args.x, args.weight),
                                       static_cast<int>(args.weight.element_count())},
               "layernorm_backward");
}

Result<void> adamw(tensor::Stream& stream, tensor::Workspace&, const ops::AdamwArgs& args) {
  return start(stream,
               AdamwLaunch{args.gradient.data, args.weights.data, args.first.data, args.second.data,
                           args.gradient.element_count(), args.scale, args.rate, args.beta1,
                           args.beta2, args.epsilon, args.decay, args.upscale1, args.upscale2},
               "adamw");
}

}  // namespace gpunode::cuda
