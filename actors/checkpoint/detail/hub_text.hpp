// How the model of a transformers folder reads and writes texts and chats: its tokenizer.json, the tokens
// that end a text, its chat template and the special tokens that this names. Files only; what they
// mean is the tokenizer's and the template's affair.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "actors/checkpoint/model_content.hpp"
#include "actors/checkpoint/text_form.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::checkpoint::detail {

inline constexpr const char* kConfig = "config.json";

// Of a file of 4 MiB at most. Fails with: what reading fails with; invalid_argument (no JSON object).
Result<nlohmann::json> read_json(const storage::FileSystem& files, const storage::Path& path);

// Whether a model's folder may have a text of this name.
bool is_text_name(std::string_view name);

// The files that say so, config.json first, as they are; those that are there. Fails with: what reading
// fails with.
Result<std::vector<TextFile>> read_texts(const storage::FileSystem& files,
                                         const storage::Path& folder);
// The model's own of them. Fails with: not_found, invalid_argument (no JSON object).
Result<nlohmann::json> config_in(const std::vector<TextFile>& texts);
Result<void> write_texts(storage::FileSystem& files, const std::vector<TextFile>& texts,
                         const storage::Path& folder);

// What they say. Fails with: invalid_argument (a file that is no JSON object; which), unsupported.
Result<TextForm> text_form_of(const std::vector<TextFile>& texts);

}  // namespace gpunode::checkpoint::detail
