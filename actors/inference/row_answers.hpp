// What a served model reads and answers in named tensors: "features" in, "class" and "scores" out of one
// that tells classes (row_desk.hpp answers it), texts and their vectors of an encoder. Called by whoever
// has the model.
#pragma once

#include "actors/inference/infer_codec.hpp"
#include "actors/inference/served_model.hpp"

namespace gpunode::inference {

// Forms of each kind of model: text in and out, rows of numbers, or texts as vectors (vector_answers.hpp).
InferDescription describe_tensors(const ServedModel& model);

// The rows' numbers, `count` each, of a request that has the one input for them. Fails with:
// invalid_argument (other inputs, or numbers that are no finite ones).
Result<std::vector<float>> features_in(const InferRequest& request, std::size_t count);
// The class with the highest of a row's scores. Fails with: internal (they are no finite numbers).
Result<std::size_t> best_class(std::span<const float> scores);
// The answer to rows with these scores, (n, classes), which took so long. Fails with: internal (they are no
// finite numbers).
Result<InferAnswer> told_rows(std::span<const float> scores, const ServedModel& model,
                              Duration took);

// Of any other model, text by text, within the deadline. Fails with: invalid_argument (other inputs),
// unsupported (a model that continues texts), timeout, device_lost, internal.
Result<InferAnswer> answer_tensors(ServedModel& model, const InferRequest& request,
                                   const Clock& clock, Time deadline);

}  // namespace gpunode::inference
