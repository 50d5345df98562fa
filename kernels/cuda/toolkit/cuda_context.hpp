// What all streams of one GPU share: its number, cuBLASLt if that could be opened, and the
// algorithm chosen for each product's shape.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "kernels/cuda/toolkit/cublas_product.hpp"
#include "kernels/tensor/stream.hpp"

namespace gpunode::cuda {

// `what` failed: a Result with the runtime's own name for the cause. Fails with: device_lost (the
// context is of no use any more), out_of_memory, internal.
Result<void> check(cudaError_t status, const char* what);

struct Context {
  int ordinal = 0;
  std::unique_ptr<CublasLt> cublas;

  KeptAlgorithms algorithms;

  Result<void> activate() const { return check(cudaSetDevice(ordinal), "choosing the GPU"); }
};

class CudaStream final : public tensor::Stream {
 public:
  CudaStream(std::shared_ptr<Context> context, cudaStream_t stream)
      : context_(std::move(context)), stream_(stream) {}
  // Waits first: cudaStreamDestroy() does not, and what the work uses may go next.
  ~CudaStream() override {
    cudaStreamSynchronize(stream_);
    cudaFree(scratch_);
    cudaStreamDestroy(stream_);
  }
  Result<void> synchronise(tensor::WaitSite) override {
    return check(cudaStreamSynchronize(stream_), "waiting for the GPU");
  }
  cudaStream_t stream() const { return stream_; }
  Context& context() const { return *context_; }
  // Of this stream's products: always as much, as the library chooses by that. Made by the first, which
  // is not noted work. Fails with: out_of_memory.
  Result<void*> product_scratch(std::size_t bytes) {
    if (!scratch_)
      if (auto done = check(cudaMalloc(&scratch_, bytes), "scratch memory of products"); !done) {
        scratch_ = nullptr;
        return done.error();
      }
    return scratch_;
  }

 private:
  std::shared_ptr<Context> context_;
  cudaStream_t stream_;
  void* scratch_ = nullptr;
};

class CudaEvent final : public tensor::Event {
 public:
  CudaEvent(std::shared_ptr<Context> context, cudaEvent_t event)
      : context_(std::move(context)), event_(event) {}
  ~CudaEvent() override { cudaEventDestroy(event_); }
  Result<void> synchronise(tensor::WaitSite) override {
    return check(cudaEventSynchronize(event_), "waiting for the GPU");
  }
  cudaEvent_t event() const { return event_; }

 private:
  std::shared_ptr<Context> context_;
  cudaEvent_t event_;
};

// Every stream and event that reaches this backend was made by it.
inline CudaStream& own(tensor::Stream& stream) {
  return static_cast<CudaStream&>(stream);
}
inline const CudaEvent& own(const tensor::Event& event) {
  return static_cast<const CudaEvent&>(event);
}

}  // namespace gpunode::cuda
