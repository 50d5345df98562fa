// Each byte as a character that can be seen, so that a vocabulary over bytes is one over characters.
// Source: GPT-2's encoder.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpunode::tokenizer::detail {

std::string byte_letters(std::string_view bytes);
// The bytes that such characters stand for; nothing where one of them stands for none.
std::optional<std::string> bytes_of_letters(std::string_view text);

}  // namespace gpunode::tokenizer::detail
