// The operations that run our own kernels, started on a stream of this GPU. A launch that fails
// says which; what a kernel does wrong while it runs is told by the next thing that waits for it.
#include "kernels/cuda/toolkit/cuda_context.hpp"
#include "kernels/cuda/toolkit/kernel_table.hpp"
#include "kernels/cuda/toolkit/operations.hpp"

namespace gpunode::cuda {
namespace {

struct OnStream {
  template <KernelName kName, auto kWork, class Args>
  static Result<void> run(tensor::Stream& stream, tensor::Workspace& workspace, const Args& args) {
    if (auto done = own(stream).context().activate(); !done) return done;
    return start_work<kWork>(workspace, args, [&](const auto& work) {
      return check(launch(work, own(stream).stream()), kName.text);
    });
  }
};

}  // namespace

void enter_kernels(ops::Operations& table) {
  enter_kernels<OnStream>(table);
}

}  // namespace gpunode::cuda
