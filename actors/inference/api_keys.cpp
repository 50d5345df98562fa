#include "actors/inference/api_keys.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "actors/json_answer.hpp"
#include "runtime/base/nearest.hpp"
#include "runtime/base/utf8.hpp"

namespace gpunode::inference {
namespace {

using nlohmann::json;

constexpr std::string_view kPrefix = "gpnk-";
constexpr std::size_t kIdBytes = 6, kSecretBytes = 32, kMostKeys = 10'000, kLongestName = 64;
const std::vector<std::string>& right_names() {
  static const std::vector<std::string> names = {"infer", "list", "metrics",
                                                 "priority"};  // by their bits
  return names;
}

std::string hex_of(ByteView bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte one : bytes) {
    text += kDigits[std::to_integer<unsigned>(one) >> 4];
    text += kDigits[std::to_integer<unsigned>(one) & 15];
  }
  return text;
}

int digit_of(char letter) {
  if ('0' <= letter && letter <= '9') return letter - '0';
  return 'a' <= letter && letter <= 'f' ? letter - 'a' + 10 : -1;
}

bool read_hash(std::string_view text, security::Sha256& hash) {
  if (text.size() != 2 * hash.size()) return false;
  for (std::size_t at = 0; at < hash.size(); ++at) {
    const int high = digit_of(text[2 * at]), low = digit_of(text[2 * at + 1]);
    if (high < 0 || low < 0) return false;
    hash[at] = static_cast<std::byte>(high << 4 | low);
  }
  return true;
}

security::Sha256 hash_of(std::string_view key) {
  return security::sha256(as_bytes(key));
}

Result<ApiKey> key_of(const json& from) {
  const auto name = from.is_object() ? field<std::string>(from, "name", "") : "";
  const auto bad = [&](const std::string& what) {
    return Error{ErrorCode::corrupted, "key '" + name + "': " + what};
  };
  ApiKey key{.id = {}, .name = name};
  try {
    key.id = from.at("id").get<std::string>();
    if (!read_hash(from.at("hash").get<std::string>(), key.hash)) return bad("its hash is none");
    auto rights = parse_api_rights(from.at("may").get<std::string>());
    if (!rights) return bad(rights.error().detail);
    key.may = *rights;
    key.models = from.at("models").get<std::vector<std::string>>();
    key.requests_per_minute = from.at("requests_per_minute").get<std::uint64_t>();
    key.tokens_per_minute = from.at("tokens_per_minute").get<std::uint64_t>();
    key.at_once = from.at("at_once").get<std::uint64_t>();
    key.created = from.at("created").get<std::int64_t>();
    key.expires = from.at("expires").get<std::int64_t>();
  } catch (const json::exception& failure) {
    return bad(failure.what());
  }
  if (key.id.size() != 2 * kIdBytes || name.empty()) return bad("it has no id or no name");
  return key;
}

json json_of(const ApiKey& key) {
  return {{"id", key.id},
          {"name", key.name},
          {"hash", hex_of(key.hash)},
          {"may", api_rights_text(key.may)},
          {"models", key.models},
          {"requests_per_minute", key.requests_per_minute},
          {"tokens_per_minute", key.tokens_per_minute},
          {"at_once", key.at_once},
          {"created", key.created},
          {"expires", key.expires}};
}

}  // namespace

std::string api_rights_text(ApiRights rights) {
  std::string text;
  for (std::size_t bit = 0; bit < right_names().size(); ++bit)
    if (rights & (ApiRights{1} << bit)) text += (text.empty() ? "" : ",") + right_names()[bit];
  return text;
}

Result<ApiRights> parse_api_rights(std::string_view text) {
  if (text == "all") return kMayInfer | kMayList | kMayMetrics | kMayGoFirst;
  ApiRights rights = 0;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    while (word.starts_with(' ')) word.remove_prefix(1);
    const auto found = std::ranges::find(right_names(), word);
    if (found == right_names().end())
      return Error{ErrorCode::invalid_argument, unknown_word("right", word, right_names())};
    rights |= ApiRights{1} << (found - right_names().begin());
  }
  if (rights == 0)
    return Error{ErrorCode::invalid_argument,
                 "a key without any right opens nothing: name some of infer,list,metrics,priority"};
  return rights;
}

bool ApiKey::may_use(std::string_view model) const {
  return models.empty() || std::ranges::find(models, model) != models.end();
}

Result<ApiKeys> ApiKeys::parse(std::string_view text) {
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("keys") || !parsed["keys"].is_array())
    return Error{ErrorCode::corrupted, "it holds no list of keys"};
  if (parsed["keys"].size() > kMostKeys)
    return Error{ErrorCode::corrupted, "it holds more keys than there may be"};
  ApiKeys keys;
  for (const json& one : parsed["keys"]) {
    auto key = key_of(one);
    if (!key) return key.error();
    if (keys.with_id(key->id))
      return Error{ErrorCode::corrupted, "key '" + key->name + "': its id is there twice"};
    keys.keys_.push_back(*std::move(key));
  }
  return keys;
}

std::string ApiKeys::text() const {
  auto list = json::array();
  for (const ApiKey& key : keys_) list.push_back(json_of(key));
  return text_of(json{{"keys", std::move(list)}}) + "\n";
}

const ApiKey* ApiKeys::with_id(std::string_view id) const {
  const auto found = std::ranges::find(keys_, id, &ApiKey::id);
  return found == keys_.end() ? nullptr : &*found;
}

const ApiKey* ApiKeys::find(std::string_view key) const {
  const security::Sha256 hash = hash_of(key);
  const ApiKey* found = nullptr;
  for (const ApiKey& one : keys_)
    if (security::constant_time_equal(one.hash, hash)) found = &one;
  return found;
}

Result<std::string> ApiKeys::add(ApiKey key) {
  const bool good = !key.name.empty() && key.name.size() <= kLongestName &&
                    std::ranges::all_of(key.name, [](unsigned char letter) {
                      return letter > ' ' && letter < 0x7f;
                    });
  if (!good)
    return Error{ErrorCode::invalid_argument,
                 "a key's name is 1 to 64 letters, digits and marks without spaces"};
  if (std::ranges::find(keys_, key.name, &ApiKey::name) != keys_.end())
    return Error{ErrorCode::already_exists, "there is a key named '" + key.name +
                                                "': `gpunode http-key revoke " + key.name +
                                                "` ends it, or take another name"};
  if (keys_.size() >= kMostKeys)
    return Error{ErrorCode::resource_exhausted, "there are 10000 keys: revoke some"};
  do key.id = hex_of(security::random_array<kIdBytes>());
  while (with_id(key.id));
  const auto secret = security::random_secret<kSecretBytes>();
  std::string text = std::string(kPrefix) + key.id + "-" + security::to_base64url(secret.view());
  key.hash = hash_of(text);
  keys_.push_back(std::move(key));
  return text;
}

Result<ApiKey> ApiKeys::remove(std::string_view name) {
  const auto found = std::ranges::find_if(
      keys_, [&](const ApiKey& key) { return key.name == name || key.id == name; });
  if (found == keys_.end())
    return Error{ErrorCode::not_found, "there is no key named '" + std::string(name) +
                                           "': `gpunode http-key ls` lists them"};
  ApiKey removed = std::move(*found);
  keys_.erase(found);
  return removed;
}

}  // namespace gpunode::inference
