// How the model of a transformers folder reads and writes texts and chats: its tokenizer.json, the tokens
// that end a text, its chat template and the special tokens that this names. Files only; what they
// mean is the tokenizer's and the template's affair.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "actors/checkpoint/stored_model.hpp"

namespace gpunode::checkpoint::detail {

inline constexpr const char* kConfig = "config.json";

// Of a file of 4 MiB at most. Fails with: what reading fails with; invalid_argument (no JSON object).
Result<nlohmann::json> read_json(const storage::FileSystem& files, const storage::Path& path);

// `config`: the folder's config.json. What the folder does not have is left out. Fails with: what
// reading fails with; invalid_argument (a file that is no JSON object).
Result<TextForm> read_text_form(const storage::FileSystem& files, const storage::Path& folder,
                                const nlohmann::json& config);

// The files that say so, and config.json, as they are; those that are there. Fails with: what reading
// and writing fail with.
Result<void> copy_texts(storage::FileSystem& files, const storage::Path& from,
                        const storage::Path& to);

}  // namespace gpunode::checkpoint::detail
