// The graph calls of a driver that runs nothing and writes down what it is asked, in order; it can
// refuse any of them. Found through the tests' cuda_runtime_api.h. One thread.
#pragma once

#include <string>
#include <vector>

#include "tests/parity/emulation/cuda_status.hpp"

namespace gpunode::emulation {

struct GraphDriver {
  std::vector<std::string> calls;
  std::string refused;  // the call that fails, e.g. "end"
  bool is_capturing = false;
  int alive = 0;  // graphs of both kinds

  bool does(const char* call) { return calls.emplace_back(call), refused != call; }
};
inline GraphDriver& graph_driver() {
  static GraphDriver driver;
  return driver;
}

}  // namespace gpunode::emulation

using cudaGraph_t = int*;
using cudaGraphExec_t = int*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };

inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  auto& driver = gpunode::emulation::graph_driver();
  driver.is_capturing = driver.does("begin");
  return driver.is_capturing ? cudaSuccess : cudaErrorInvalidValue;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  auto& driver = gpunode::emulation::graph_driver();
  driver.is_capturing = false;
  if (!driver.does("end")) return cudaErrorInvalidValue;
  ++driver.alive;
  *graph = new int(0);
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t, unsigned long long) {
  auto& driver = gpunode::emulation::graph_driver();
  if (!driver.does("instantiate")) return cudaErrorInvalidValue;
  ++driver.alive;
  *made = new int(0);
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  return gpunode::emulation::graph_driver().does("launch") ? cudaSuccess : cudaErrorLaunchFailure;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  --gpunode::emulation::graph_driver().alive;
  delete graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  --gpunode::emulation::graph_driver().alive;
  delete graph;
  return cudaSuccess;
}
