// How gradients travel in a job's exchange mode, made of the backend's kernels. The exchange gets
// functions and never learns what they do.
//
// The last float of a chunk always travels as it is: the last one of the whole vector is the sum of
// losses, which would drown the gradients that share its scale.
#pragma once

#include <memory>

#include "kernels/ops/backend.hpp"
#include "runtime/collective/wire_form.hpp"
#include "runtime/job/job_spec.hpp"

namespace gpunode::compute {

// Null for modes whose floats travel as they are. The functions may be called from one thread at a
// time; the backend outlives them. Fails with invalid_argument (unknown mode).
Result<std::shared_ptr<const collective::WireForms>> wire_forms_of(ops::Backend& backend,
                                                                   const job::ExchangeSpec& spec);

}  // namespace gpunode::compute
