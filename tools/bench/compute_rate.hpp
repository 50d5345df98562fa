// How fast a device computes: its peaks (the best large product, a large copy), and each operation
// of a model's training graph in its place in the graph, as the product runs it: on a CPU a slice is
// one thread's, and as many slices as there are threads run at once; rates are of all together.
// Flops and bytes are those of the graph's table of operations (kernels/graph/op.hpp). Operands that
// fit into a cache come from it where a call is repeated, so a small one may exceed a copy's rate.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/op.hpp"
#include "kernels/model/graph_model.hpp"

namespace gpunode::bench {

struct ComputeOptions {
  int threads = 1;
  double seconds = 0.1;                   // of each measurement, at least three calls
  Precision precision = Precision::fp32;  // of products: the models' and the peak's
  std::vector<std::string> ops;           // these alone; empty: all
  std::string filter;  // lines that have it in "model op dtype shapes"; empty: all
  bool wants(const std::string& op, const std::string& line) const;
};

struct Peaks {
  double flops_per_second = 0;
  std::string product;               // "2048x2048x2048": which was the fastest
  double copy_bytes_per_second = 0;  // read and written, together
  void raise_to(const Peaks& other);
};

struct CallRate {
  std::string op, dtype, shapes;
  std::size_t calls = 0;                              // in a slice
  graph::Cost cost;                                   // of one
  double seconds = 0;                                 // of one: the median, the mean over threads
  double flops_per_second = 0, bytes_per_second = 0;  // of all threads
};

struct ModelRates {
  std::vector<CallRate> calls;  // in the order of the graph; equal ones once
  std::vector<CallRate> slice;  // forward, backward and both; empty where the filter leaves it out
};

// Fail with: out_of_memory, and what an operation fails with.
Result<Peaks> measure_peaks(ops::Backend& backend, const ComputeOptions& options);
// Fails with: also unsupported (an operation that the device lacks).
Result<ModelRates> measure_model(const std::string& name, const model::GraphModel& model,
                                 std::size_t samples, ops::Backend& backend,
                                 const ComputeOptions& options);

}  // namespace gpunode::bench
