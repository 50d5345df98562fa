// What is told of a text's tokens as OpenAI's clients read it, of completions and of chats. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "actors/inference/token_report.hpp"

namespace gpunode::inference::openai {

// Null of none.
nlohmann::json logprobs_of(std::span<const TokenReport> reports, bool is_chat);

}  // namespace gpunode::inference::openai
