// The compute fingerprint: the digest of one slice's gradient, computed with the job's own model,
// shapes and samples. Members with equal digests produce equal bits; others are refused in exact mode
// and the text tells why they differ (instruction set, library version, device). Where the models
// themselves differ, which their names do not show, that is told apart.
#pragma once

#include <string>

#include "kernels/model/model.hpp"
#include "runtime/base/digest.hpp"

namespace gpunode::model {

struct Fingerprint {
  Digest digest;
  // "cpu avx512, oneDNN 2.6.3 (avx512 bf16)", what a GPU's library chooses by besides, and ", bf16"
  // where it computes so.
  std::string text;
  Digest model;  // of settings, parameters and initial weights, before anything is computed
};

// Computes one slice of these samples with fixed weights, and one optimizer step. Cost: a step. Thread: any. Fails with: what Model::program and Program::gradient fail with.
Result<Fingerprint> compute_fingerprint(const Model& model, ops::Backend& backend,
                                        std::span<const Sample> samples);

}  // namespace gpunode::model
