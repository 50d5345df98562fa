// What a served model reads and answers in named tensors, and the answer itself for one that tells classes:
// "features" in, "class" and "scores" out. Called by the model actor from its thread.
#pragma once

#include "actors/inference/infer_codec.hpp"
#include "actors/inference/served_model.hpp"

namespace gpunode::inference {

// Forms of each kind of model: text in and out, rows of numbers, or texts as vectors (vector_answers.hpp).
InferDescription describe_tensors(const ServedModel& model);

// Row by row, or text by text, within the deadline. Fails with: invalid_argument (other inputs, or numbers that are no
// finite ones), unsupported (a model of texts), timeout, device_lost, internal.
Result<InferAnswer> answer_rows(ServedModel& model, const InferRequest& request, const Clock& clock,
                                Time deadline);

}  // namespace gpunode::inference
