// What an operation of the backend wants besides its tensors, for the exchange's small functions
// (sums, wire forms) that work in host memory without one of their own. The CPU's use neither
// stream nor workspace.
#pragma once

#include <memory>

#include "kernels/ops/backend.hpp"
#include "kernels/tensor/workspace.hpp"

namespace gpunode::compute {

struct HostWorkspace {
  tensor::BufferPool pool{tensor::host_memory(), 0};
  tensor::Workspace workspace{pool};
  std::unique_ptr<tensor::Stream> stream;
};

inline std::shared_ptr<HostWorkspace> open_host_workspace(ops::Backend& backend) {
  GPUNODE_CHECK(backend.capabilities().host_accessible, "the exchange works in host memory");
  auto host = std::make_shared<HostWorkspace>();
  auto stream = backend.open_stream();
  GPUNODE_CHECK(stream, stream.error().message());
  host->stream = std::move(*stream);
  return host;
}

}  // namespace gpunode::compute
