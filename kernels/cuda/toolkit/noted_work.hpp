// A stage's calls as one CUDA graph: captured from a stream once, started by one call after that.
// Whatever the driver refuses ends the capture and leaves the stream as it was. Seen by the tests'
// fake driver too, so nothing but the runtime is used.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

namespace gpunode::cuda {

class CapturedGraph {
 public:
  // queue() puts the work on the stream, which only notes it, and tells whether it could. Null: the
  // driver or queue() refused; the stream can be used as before.
  static std::unique_ptr<CapturedGraph> capture(cudaStream_t stream,
                                                const std::function<bool()>& queue);
  ~CapturedGraph() { cudaGraphExecDestroy(graph_); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  cudaError_t launch(cudaStream_t stream) const { return cudaGraphLaunch(graph_, stream); }

 private:
  explicit CapturedGraph(cudaGraphExec_t graph) : graph_(graph) {}
  cudaGraphExec_t graph_;
};

}  // namespace gpunode::cuda
