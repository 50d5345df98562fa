#include "actors/inference/http_audit.hpp"

#include "actors/inference/key_ring.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::inference {
namespace {

constexpr std::uint64_t kLongestFile = 16 << 20;
using Fields = std::vector<security::AuditField>;

Fields named(const ApiKey& key) {
  return {{"key", key.name}, {"id", key.id}};
}

Fields described(const ApiKey& key) {
  std::string models;
  for (const std::string& model : key.models) models += (models.empty() ? "" : ",") + model;
  Fields fields = named(key);
  fields.push_back({"may", api_rights_text(key.may)});
  fields.push_back({"models", key.models.empty() ? "all" : models});
  if (key.expires != 0)
    fields.push_back({"expires", utc_text(std::chrono::system_clock::time_point(
                                              std::chrono::seconds(key.expires)),
                                          "%Y-%m-%dT%H:%M:%SZ")});
  return fields;
}

// As a file has it, so that whatever of it is changed is seen.
std::string text_of(const ApiKey& key) {
  return api_rights_text(key.may) + std::to_string(key.requests_per_minute) + "/" +
         std::to_string(key.tokens_per_minute) + "/" + std::to_string(key.at_once) + "/" +
         std::to_string(key.expires) + "/" + key.name + to_hex(key.hash) + [&] {
           std::string models;
           for (const std::string& model : key.models) models += "/" + model;
           return models;
         }();
}

}  // namespace

HttpAudit::HttpAudit(storage::FileSystem& files, storage::Path state_directory)
    : files_(files),
      keys_path_(state_directory / KeyRing::kFile),
      audited_path_(state_directory / kAuditedFile) {}

// Of one that is not there, or damaged, nothing is known: all keys are noted anew.
void HttpAudit::load_audited() {
  audited_.emplace();
  const auto bytes = files_.read(audited_path_, kLongestFile);
  if (!bytes) return;
  if (auto keys = ApiKeys::parse(as_text(*bytes))) audited_ = *std::move(keys);
}

void HttpAudit::look_at_keys(const Note& note) {
  const auto bytes = files_.read(keys_path_, kLongestFile);
  if (!bytes && bytes.error().code != ErrorCode::not_found) return;  // the front tells of it
  const std::string text = bytes ? std::string(as_text(*bytes)) : std::string();
  if (seen_ == text) return;
  ApiKeys keys;
  if (bytes) {
    auto parsed = ApiKeys::parse(text);
    if (!parsed) return;
    keys = *std::move(parsed);
  }
  if (!audited_) load_audited();
  bool all = true;
  for (const ApiKey& key : keys.all()) {
    const ApiKey* before = audited_->with_id(key.id);
    if (before && text_of(*before) == text_of(key)) continue;
    all = note(before ? "http_key_changed" : "http_key_created", described(key)) && all;
  }
  for (const ApiKey& key : audited_->all())
    if (!keys.with_id(key.id)) all = note("http_key_revoked", named(key)) && all;
  if (!all) return;  // told again rather than not at all
  const std::string told = keys.text();
  if (told != audited_->text())
    if (auto written = files_.write_atomic(audited_path_, {as_bytes(told)}); !written)
      log::warning("http", "the audit log will tell of keys again: " + written.error().message());
  audited_ = std::move(keys);
  seen_ = text;
}

void HttpAudit::tell_refusals(const Note& note) {
  for (const auto& [key, refused] : refusals_.take())
    note("http_refused",
         {{"key", key}, {"count", std::to_string(refused.count)}, {"newest", refused.newest}});
}

}  // namespace gpunode::inference
