// The number of a token in a model's vocabulary.
#pragma once

#include <cstdint>

namespace gpunode::tokenizer {

using Token = std::int32_t;
inline constexpr Token kNone = -1;

}  // namespace gpunode::tokenizer
