// Whether two nodes would compute the same job: the program, the model, the data and the bits that
// each would bring, compared, and told in sentences that a person can act on. Pure.
#pragma once

#include <optional>
#include <string>
#include <tuple>

#include "actors/job/job_note_codec.hpp"
#include "runtime/base/error.hpp"
#include "runtime/job/job_spec.hpp"

namespace gpunode::jobs {

// What nodes are compared by: of a Fitness, and of a JobSpec that has been handed out.
template <class Bearer>
auto brought(Bearer& bearer) {
  return std::tie(bearer.data_digest, bearer.data_bytes, bearer.sample_count, bearer.fingerprint,
                  bearer.fingerprint_text, bearer.version, bearer.model_digest);
}

// What a node must bring to take part in this job, which has been handed out already.
Fitness fitness_for(const job::JobSpec& spec);

// Why a node that brings `own` cannot compute the job of those that bring `others`: what differs,
// both values shortened, and what to do. `spec` names the job's data and model.
std::optional<Error> difference(const Fitness& own, const Fitness& others,
                                const job::JobSpec& spec);

// The same of the data alone.
std::optional<Error> data_difference(const Fitness& own, const Fitness& others,
                                     const job::JobSpec& spec);

}  // namespace gpunode::jobs
