#include "actors/checkpoint/detail/hub_text.hpp"

#include <nlohmann/json.hpp>

namespace gpunode::checkpoint::detail {
namespace {

using nlohmann::json;
using storage::Path;

constexpr std::uint64_t kLongestConfigBytes = 4 << 20;
constexpr std::uint64_t kLongestTokenizerBytes = 64 << 20;
constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kChatTemplate = "chat_template.jinja";
constexpr const char* kPooling = "1_Pooling/config.json";

// The token behind which a text is over, or a list of them.
std::vector<model::Token> end_tokens(const json& config) {
  const auto found = config.find("eos_token_id");
  if (found == config.end()) return {};
  std::vector<model::Token> tokens;
  for (const json& one : found->is_array() ? *found : json::array({*found}))
    if (one.is_number_integer()) tokens.push_back(one.get<model::Token>());
  return tokens;
}

// "bos_token" and its like, each a text or an object with the text as "content".
std::map<std::string, std::string> special_tokens(const json& config) {
  std::map<std::string, std::string> tokens;
  for (const auto& [key, value] : config.items()) {
    if (!key.ends_with("_token")) continue;
    const json& text = value.is_object() && value.contains("content") ? value["content"] : value;
    if (text.is_string()) tokens[key] = text.get<std::string>();
  }
  return tokens;
}

// One template, or several by name, of which the one called "default" is meant.
std::string chat_template(const json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return {};
  for (const json& one : *found)
    if (one.is_object() && one.value("name", json()) == "default" &&
        one.value("template", json()).is_string())
      return one["template"].get<std::string>();
  return {};
}

// Which words of a text stand for it, in a folder of sentence-transformers.
Result<Pooling> read_pooling(const storage::FileSystem& files, const Path& folder) {
  if (!files.exists(folder / kPooling)) return Pooling::mean;
  const auto config = read_json(files, folder / kPooling);
  if (!config) return config.error();
  for (const auto& [key, value] : config->items()) {
    if (!key.starts_with("pooling_mode") || value == false) continue;
    if (key == "pooling_mode_mean_tokens" || value == "mean") return Pooling::mean;
    if (key == "pooling_mode_cls_token" || value == "cls") return Pooling::first;
    return Error{ErrorCode::unsupported, (folder / kPooling).string() + ": " + key +
                                             " is not known here: mean_tokens and cls_token are"};
  }
  return Pooling::mean;
}

Result<std::string> read_text(const storage::FileSystem& files, const Path& path,
                              std::uint64_t most_bytes) {
  const auto bytes = files.read(path, most_bytes);
  if (!bytes) return bytes.error();
  return std::string(as_text(*bytes));
}

Result<void> read_chat_form(const storage::FileSystem& files, const Path& folder, TextForm& form) {
  if (files.exists(folder / kTokenizerConfig)) {
    const auto config = read_json(files, folder / kTokenizerConfig);
    if (!config) return config.error();
    form.special_tokens = special_tokens(*config);
    form.chat_template = chat_template(*config);
  }
  if (!files.exists(folder / kChatTemplate)) return {};
  auto own = read_text(files, folder / kChatTemplate, kLongestConfigBytes);
  if (!own) return own.error();
  form.chat_template = *std::move(own);
  return {};
}

}  // namespace

Result<json> read_json(const storage::FileSystem& files, const Path& path) {
  auto text = files.read(path, kLongestConfigBytes);
  if (!text) return text.error();
  json document = json::parse(as_text(*text), nullptr, false);
  if (!document.is_object())
    return Error{ErrorCode::invalid_argument, path.string() + ": is no JSON object"};
  return document;
}

Result<TextForm> read_text_form(const storage::FileSystem& files, const Path& folder,
                                const json& config) {
  TextForm form{.tokenizer = {}, .ends = end_tokens(config)};
  if (files.exists(folder / kGeneration)) {
    const auto generation = read_json(files, folder / kGeneration);
    if (!generation) return generation.error();
    if (auto ends = end_tokens(*generation); !ends.empty()) form.ends = std::move(ends);
  }
  const auto pooling = read_pooling(files, folder);
  if (!pooling) return pooling.error();
  form.pooling = *pooling;
  if (auto read = read_chat_form(files, folder, form); !read) return read.error();
  if (!files.exists(folder / kTokenizer)) return form;
  auto tokenizer = read_text(files, folder / kTokenizer, kLongestTokenizerBytes);
  if (!tokenizer) return tokenizer.error();
  form.tokenizer = *std::move(tokenizer);
  return form;
}

Result<void> copy_texts(storage::FileSystem& files, const Path& from, const Path& to) {
  if (files.exists(from / kPooling))
    if (auto done = files.create_folder((to / kPooling).parent_path()); !done) return done;
  for (const char* name :
       {kPooling, kConfig, kGeneration, kTokenizer, kTokenizerConfig, kChatTemplate}) {
    if (!files.exists(from / name)) continue;
    const auto text = files.read(from / name, kLongestTokenizerBytes);
    if (!text) return text.error();
    if (auto done = files.write_atomic(to / name, {*text}); !done) return done;
  }
  return {};
}

}  // namespace gpunode::checkpoint::detail
