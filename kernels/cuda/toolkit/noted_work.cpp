#include "kernels/cuda/toolkit/noted_work.hpp"

namespace gpunode::cuda {

// Other threads' calls go on meanwhile: only this thread's are captured.
std::unique_ptr<CapturedGraph> CapturedGraph::capture(cudaStream_t stream,
                                                      const std::function<bool()>& queue) {
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) {
    cudaGetLastError();  // handled: later launches must not see it
    return nullptr;
  }
  cudaGraph_t noted = nullptr;
  bool queued = false;
  try {
    queued = queue();
  } catch (...) {  // the stream is not to go on capturing
    cudaStreamEndCapture(stream, &noted);
    if (noted) cudaGraphDestroy(noted);
    cudaGetLastError();
    throw;
  }
  const bool ended = cudaStreamEndCapture(stream, &noted) == cudaSuccess && noted;
  cudaGraphExec_t made = nullptr;
  const bool whole = queued && ended && cudaGraphInstantiate(&made, noted, 0) == cudaSuccess;
  if (noted) cudaGraphDestroy(noted);
  if (whole) return std::unique_ptr<CapturedGraph>(new CapturedGraph(made));
  cudaGetLastError();
  return nullptr;
}

}  // namespace gpunode::cuda
