// How gradients travel in a job's exchange mode, made of the backend's kernels. The exchange gets
// functions and never learns what they do.
//
// The last floats of a chunk always travel as they are: those of the whole vector are what buffers
// follow, the loss and its weight, which must not be rounded and would drown the gradients that
// share their scale.
#pragma once

#include <memory>

#include "kernels/model/model.hpp"
#include "kernels/ops/backend.hpp"
#include "runtime/collective/wire_form.hpp"
#include "runtime/job/job_spec.hpp"

namespace gpunode::compute {

// How many floats at a gradient's end are no gradients.
std::size_t exact_end_of(const model::Model& model);

// Null for modes whose floats travel as they are. The functions may be called from one thread at a
// time; the backend outlives them. Fails with invalid_argument (unknown mode).
Result<std::shared_ptr<const collective::WireForms>> wire_forms_of(
    ops::Backend& backend, const job::ExchangeSpec& spec,
    std::size_t exact_end = model::kTailElements);

}  // namespace gpunode::compute
