// Starts launches on a stream of a GPU. A launch that fails says which; what a kernel does wrong while
// it runs is told by the next thing that waits for it.
#pragma once

#include "kernels/cuda/toolkit/cuda_context.hpp"
#include "kernels/cuda/toolkit/kernel_table.hpp"

namespace gpunode::cuda {

struct OnStream {
  template <KernelName kName, auto kWork, class Args>
  static Result<void> run(tensor::Stream& stream, tensor::Workspace& workspace, const Args& args) {
    if (auto done = own(stream).context().activate(); !done) return done;
    return start_work<kWork>(workspace, args, [&](const auto& work) {
      return check(launch(work, own(stream).stream()), kName.text);
    });
  }
};

}  // namespace gpunode::cuda
