// How fast a device computes models: each operation of a model's graph and whole steps of the
// product's trainer, beside the peaks of the same device measured in the same run. Needs no node.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "kernels/model/model.hpp"
#include "kernels/ops/backend.hpp"

namespace gpunode::cli {

// What the device does at best: of one large product, and of one large copy (read and written).
struct Peaks {
  double flops_per_second = 0;
  double bytes_per_second = 0;
};

// `threads` of them at once; a GPU needs one. Fails with: out_of_memory, internal.
Result<Peaks> measure_peaks(ops::Backend& backend, int threads, std::chrono::milliseconds each);

struct OperationRate {
  std::string operation, shapes;
  std::size_t calls = 0;        // in a slice
  double seconds = 0;           // of all these calls: the median of many slices
  double flops = 0, bytes = 0;  // of all these calls, by their shapes
};

// One slice's graph on one thread. Fails with: unsupported (the model is none, or the device lacks an
// operation), out_of_memory, internal.
Result<std::vector<OperationRate>> measure_operations(const model::Model& model,
                                                      ops::Backend& backend, std::size_t samples,
                                                      std::chrono::milliseconds time);

struct StepRate {
  double seconds = 0;  // the median
  double flops = 0;    // of the products of all slices, by their shapes
  double tokens = 0;
};

struct StepShape {
  std::size_t batch = 12, slices = 4;
  int threads = 1;
};

// Gradient, update and digest as a job's trainer does them. Fails with: as above.
Result<StepRate> measure_step(std::shared_ptr<const model::Model> model, ops::Backend& backend,
                              const StepShape& shape, std::chrono::milliseconds time);

}  // namespace gpunode::cli
