// The CPU as a backend: the whole table of operations, each run by the calling thread alone
// (callers parallelise over slices or blocks). Instruction set is chosen at run time from what the
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

std::unique_ptr<ops::Backend> open_backend();

}  // namespace gpunode::cpu
