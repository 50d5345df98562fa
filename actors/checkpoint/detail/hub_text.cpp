#include "actors/checkpoint/detail/hub_text.hpp"

#include <algorithm>
#include <array>

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

struct KnownText {
  std::string_view name;
  std::uint64_t most_bytes;
};
constexpr std::array kTexts{
    KnownText{kConfig, kLongestConfigBytes},       KnownText{kGeneration, kLongestConfigBytes},
    KnownText{kTokenizer, kLongestTokenizerBytes}, KnownText{kTokenizerConfig, kLongestConfigBytes},
    KnownText{kChatTemplate, kLongestConfigBytes}, KnownText{kPooling, kLongestConfigBytes}};

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

// Fails with invalid_argument: it is no JSON object.
Result<json> object_of(std::string_view text, const std::string& name) {
  json document = json::parse(text, nullptr, false);
  if (document.is_object()) return document;
  return Error{ErrorCode::invalid_argument, name + ": is no JSON object"};
}

// Empty: there is no such file.
std::string_view bytes_in(const std::vector<TextFile>& texts, const char* name) {
  const auto found = std::ranges::find(texts, name, &TextFile::name);
  return found == texts.end() ? std::string_view() : found->bytes;
}

// As JSON; an empty object where there is no such file.
Result<json> json_in(const std::vector<TextFile>& texts, const char* name) {
  const auto found = std::ranges::find(texts, name, &TextFile::name);
  if (found == texts.end()) return json::object();
  return object_of(found->bytes, name);
}

// Which words of a text stand for it, in a folder of sentence-transformers.
Result<Pooling> pooling_in(const std::vector<TextFile>& texts) {
  const auto config = json_in(texts, kPooling);
  if (!config) return config.error();
  for (const auto& [key, value] : config->items()) {
    if (!key.starts_with("pooling_mode") || value == false) continue;
    if (key == "pooling_mode_mean_tokens" || value == "mean") return Pooling::mean;
    if (key == "pooling_mode_cls_token" || value == "cls") return Pooling::first;
    return Error{ErrorCode::unsupported, std::string(kPooling) + ": " + key +
                                             " is not known here: mean_tokens and cls_token are"};
  }
  return Pooling::mean;
}

}  // namespace

Result<json> read_json(const storage::FileSystem& files, const Path& path) {
  auto text = files.read(path, kLongestConfigBytes);
  if (!text) return text.error();
  return object_of(as_text(*text), path.string());
}

bool is_text_name(std::string_view name) {
  return std::ranges::find(kTexts, name, &KnownText::name) != kTexts.end();
}

Result<std::vector<TextFile>> read_texts(const storage::FileSystem& files, const Path& folder) {
  std::vector<TextFile> texts;
  for (const KnownText& one : kTexts) {
    if (!files.exists(folder / one.name)) continue;
    const auto bytes = files.read(folder / one.name, one.most_bytes);
    if (!bytes) return bytes.error();
    texts.push_back({std::string(one.name), std::string(as_text(*bytes))});
  }
  return texts;
}

Result<json> config_in(const std::vector<TextFile>& texts) {
  if (texts.empty() || texts.front().name != kConfig)
    return Error{ErrorCode::not_found, std::string(kConfig) + " is not there any more"};
  return object_of(texts.front().bytes, kConfig);
}

Result<void> write_texts(storage::FileSystem& files, const std::vector<TextFile>& texts,
                         const Path& folder) {
  for (const TextFile& one : texts) {
    const Path path = folder / one.name;
    if (auto done = files.create_folder(path.parent_path()); !done) return done;
    if (auto done = files.write_atomic(path, {as_bytes(one.bytes)}); !done) return done;
  }
  return {};
}

Result<TextForm> text_form_of(const std::vector<TextFile>& texts) {
  const auto config = json_in(texts, kConfig);
  if (!config) return config.error();
  const auto generation = json_in(texts, kGeneration);
  if (!generation) return generation.error();
  const auto tokens = json_in(texts, kTokenizerConfig);
  if (!tokens) return tokens.error();
  const auto pooling = pooling_in(texts);
  if (!pooling) return pooling.error();
  TextForm form{.tokenizer = std::string(bytes_in(texts, kTokenizer)),
                .ends = end_tokens(*generation),
                .chat_template = std::string(bytes_in(texts, kChatTemplate)),
                .special_tokens = special_tokens(*tokens),
                .pooling = *pooling};
  if (form.ends.empty()) form.ends = end_tokens(*config);
  if (form.chat_template.empty()) form.chat_template = chat_template(*tokens);
  return form;
}

}  // namespace gpunode::checkpoint::detail
