// Texts represented for whoever asks in named tensors: "text", bytes (N), in; or their tokens, "token_ids",
// int64 (T) of all texts behind one another, and "lengths", int64 (N). Out come "embedding", fp32 (N, C),
// of length 1 each, and "tokens", int64 (N). Called by the model actor from its thread.
#pragma once

#include "actors/inference/infer_codec.hpp"
#include "actors/inference/served_model.hpp"

namespace gpunode::inference {

inline constexpr const char *kTextTensor = "text", *kTokensTensor = "token_ids",
                            *kLengthsTensor = "lengths", *kVectorTensor = "embedding",
                            *kCountTensor = "tokens";

// Of a model that has an encoder.
InferDescription describe_vectors(const ServedModel& model);
// Text by text, within the deadline. Fails with: invalid_argument (other inputs; a text that cannot be
// represented, and which), timeout, device_lost, internal.
Result<InferAnswer> answer_texts(ServedModel& model, const InferRequest& request,
                                 const Clock& clock, Time deadline);

}  // namespace gpunode::inference
