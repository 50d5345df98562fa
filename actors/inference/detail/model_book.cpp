#include "actors/inference/detail/model_book.hpp"

#include <algorithm>

#include "actors/inference/model_name.hpp"
#include "actors/inference/part_name.hpp"
#include "actors/json_answer.hpp"
#include "runtime/security/rights.hpp"
#include "runtime/storage/checksum.hpp"

namespace gpunode::inference {

using nlohmann::json;

namespace {
// One that a hostile member tells may not use the numbers up: none comes behind those from kHighNumber on.
constexpr std::uint64_t kHighNumber = std::uint64_t{1} << 48;
constexpr std::uint64_t kLargestNumber = std::uint64_t{1} << 52;

// What an entry of the directory says of a model, where its owner may serve; nothing: it makes no sense.
std::optional<ModelVersion> version_told(const ClusterSnapshot& cluster,
                                         const DirectoryEntry& entry, const json& told) {
  const NodeInfo* node = cluster.find(entry.owner);
  if (!node || (!node->self && (node->rights & security::kRightServe) == 0)) return {};
  ModelVersion version = version_in(told);
  if (version.number == 0 || version.number > kLargestNumber) return {};
  if (!storage::Sha256::parse(version.digest)) return {};  // it becomes a folder's name
  return version;
}
}  // namespace

std::string call_name(const std::string& model) {
  return "model/" + model;
}

std::string pinned_call_name(const std::string& model, std::uint64_t version) {
  return versioned(call_name(model), version);
}

std::map<std::string, ModelVersion> newest_versions(const ClusterSnapshot& cluster) {
  const std::string models = call_name("");
  std::map<std::string, ModelVersion> newest;
  for (const DirectoryEntry& entry : cluster.entries) {
    if (!entry.key.starts_with(models)) continue;
    const json told = arguments_of(std::string(as_text(entry.value)));
    const auto version = version_told(cluster, entry, told);
    if (!version || version->number >= kHighNumber) continue;
    ModelVersion& known = newest[entry.key.substr(models.size())];
    if (version->number > known.number) known = *version;
  }
  return newest;
}

std::vector<OfferedVersion> offered_versions(const ClusterSnapshot& cluster,
                                             const std::string& model) {
  std::vector<OfferedVersion> offers;
  for (const DirectoryEntry& entry : cluster.entries) {
    if (entry.key != call_name(model) || !cluster.alive(entry.owner)) continue;
    const json told = arguments_of(std::string(as_text(entry.value)));
    const auto version = version_told(cluster, entry, told);
    if (!version) continue;
    auto found = std::ranges::find(offers, *version, &OfferedVersion::version);
    if (found == offers.end()) found = offers.insert(offers.end(), {*version, {}, false});
    // Of a head nobody can take the model.
    const bool is_head = told.contains("part") && !names_part(model);
    if (is_head) continue;
    found->is_whole = true;
    if (!field<bool>(told, "asleep", false)) found->holders.push_back(entry.owner);
  }
  std::ranges::sort(offers, std::greater{}, [](const OfferedVersion& one) {
    return std::pair(one.version.number, one.version.digest);
  });
  return offers;
}

const OfferedVersion* wanted_of(const std::vector<OfferedVersion>& offers, std::uint64_t pinned) {
  const auto found = std::ranges::find_if(offers, [&](const OfferedVersion& one) {
    return one.is_whole && (pinned == 0 || one.version.number == pinned);
  });
  return found == offers.end() ? nullptr : &*found;
}

std::uint64_t number_for(const std::vector<OfferedVersion>& offers, const std::string& digest,
                         const std::vector<ModelVersion>& known, bool anew) {
  std::uint64_t newest = 0, same = 0;
  const auto see = [&](const ModelVersion& one) {
    if (one.number < kHighNumber) newest = std::max(newest, one.number);
    if (one.digest == digest) same = std::max(same, one.number);
  };
  for (const OfferedVersion& one : offers) see(one.version);
  for (const ModelVersion& one : known) see(one);
  return same > 0 && !anew ? same : newest + 1;
}

json to_json(const ModelSource& source, const ModelVersion& version) {
  json kept = {
      {"job", source.job},         {"path", source.job.empty() && !source.copy ? source.path : ""},
      {"at", source.path},         {"weights", source.weights},
      {"version", version.number}, {"digest", version.digest}};
  if (source.copy) kept["copy"] = true;
  if (source.pinned > 0) kept["pinned"] = source.pinned;
  if (!source.part.empty()) kept["part"] = source.part;
  if (source.idle_seconds > 0) kept["idle_seconds"] = source.idle_seconds;
  if (!source.draft.empty()) kept["draft"] = source.draft;
  if (source.deterministic) kept["deterministic"] = true;
  return kept;
}

ModelSource source_in(const json& kept) {
  return {.path = field<std::string>(kept, "path", ""),
          .job = field<std::string>(kept, "job", ""),
          .weights = field<std::string>(kept, "weights", ""),
          .copy = field<bool>(kept, "copy", false),
          .pinned = field<std::uint64_t>(kept, "pinned", 0),
          .part = field<std::string>(kept, "part", ""),
          .idle_seconds = field<std::uint64_t>(kept, "idle_seconds", 0),
          .draft = field<std::string>(kept, "draft", ""),
          .deterministic = field<bool>(kept, "deterministic", false)};
}

ModelVersion version_in(const json& kept) {
  return {field<std::uint64_t>(kept, "version", 0), field<std::string>(kept, "digest", "")};
}

Result<void> check_model_name(const std::string& name) {
  if (name.empty()) return Error{ErrorCode::invalid_argument, "a model needs a name"};
  if (std::ranges::none_of(name, [](unsigned char letter) {
        return letter <= ' ' || letter == 0x7f || letter == '/' || letter == kBeforeVersion;
      }))
    return {};
  return Error{ErrorCode::invalid_argument,
               "a model's name has no spaces, slashes, '@' or control characters: --name takes "
               "letters, digits, '-', '_', '.' and their like"};
}

}  // namespace gpunode::inference
