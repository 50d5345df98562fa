// The CPU as a backend: the whole table of operations, each run by the calling thread alone (callers
// parallelise over slices or blocks) but a product with independent rows, whose columns the threads of
// the backend's team share. Instruction set is chosen at run time from what the
// processor has; own code gives the same bits with each of them, oneDNN's products may differ.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/ops/backend.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::cpu {

// Narrows the instruction set of the whole process, our own code's and oneDNN's: "avx512", "avx2"
// or "portable", so that unlike machines compute the same bits in exact mode. To be called before
// the first backend is opened. Fails with: invalid_argument (no such name), unsupported (this
// processor lacks it), wrong_state (a product was computed already).
Result<void> pin_instruction_set(std::string_view name);

struct Options {
  // That run one product with independent rows, the caller among them: threads beyond it start with
  // the first one and sleep when there is none. 0: all the cores the process may use. More cost
  // nothing in bits.
  int threads = 0;
};

std::unique_ptr<ops::Backend> open_backend(const Options& options = {});

}  // namespace gpunode::cpu
