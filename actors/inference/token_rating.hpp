// The log probability of a token by a model's scores, and those of the most likely ones beside it. A function
// of the scores alone. Costs two passes over them.
#pragma once

#include <span>

#include "actors/inference/token_report.hpp"
#include "kernels/model/model.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

namespace gpunode::inference {

// `likely`: how many of the others at most, the best first, of two equal ones the smaller number. Scores that
// are not finite count as impossible.
TokenReport rate_token(std::span<const float> scores, model::Token token, std::size_t likely,
                       const tokenizer::Tokenizer& tokenizer);

}  // namespace gpunode::inference
