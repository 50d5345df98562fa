// What every operation is: work on tensors that is queued on a stream, with scratch memory from a
// workspace. Each header here holds the arguments of one, which are its contract.
#pragma once

#include "kernels/tensor/stream.hpp"
#include "kernels/tensor/tensor.hpp"
#include "kernels/tensor/workspace.hpp"

namespace gpunode::ops {

template <class Args>
using Operation = Result<void>(tensor::Stream&, tensor::Workspace&, const Args&);

}  // namespace gpunode::ops
