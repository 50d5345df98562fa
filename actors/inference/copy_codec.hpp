// What a node asks of another one that serves a model, to serve it too, and what the model is made of, as
// payloads of calls (schemas/model_copy.fbs). The answer's digest is checked by who asked for it; here it
// is only made sure that its numbers fit each other.
#pragma once

#include <optional>
#include <variant>

#include "actors/checkpoint/model_content.hpp"

namespace gpunode::inference {

// Of the model with this digest a piece, or its content.
struct CopyAsk {
  storage::Sha256 digest;
  std::optional<std::size_t> piece;
};
using CopyMessage = std::variant<CopyAsk, checkpoint::ModelContent>;

Bytes encode_copy(const CopyMessage& message);
// Fails with corrupted: no such message; a content whose pieces do not cover its bytes.
Result<CopyMessage> decode_copy(ByteView bytes);

}  // namespace gpunode::inference
