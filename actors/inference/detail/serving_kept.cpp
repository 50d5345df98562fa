// What is served, as it is kept over restarts of the node, in one file, and with it the copies on the disk.
#include "actors/inference/detail/serving_state.hpp"
#include "actors/json_answer.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::inference::detail {

using nlohmann::json;

void keep(Self* self, const std::string& name, const Serving& serving) {
  json kept = to_json(serving.source, serving.version);
  if (const auto before = self->state.kept.find(name); before != self->state.kept.end()) {
    json replaced = *before;
    const json older = replaced.value("before", json());
    replaced.erase("before");
    const bool same = version_in(replaced).digest == serving.version.digest;
    if (const json& to = same ? older : replaced; to.is_object()) kept["before"] = to;
  }
  self->state.kept[name] = std::move(kept);
  remember(self);
}

void remember(Self* self) {
  State& state = self->state;
  const ServingOptions& options = state.options;
  if (options.remembered.empty()) return;
  const std::string text = state.kept.dump(2) + '\n';
  if (auto done = options.files->write_atomic(options.remembered, {as_bytes(text)}); !done)
    return log::warning("serving",
                        "what is served is forgotten with a restart: " + done.error().message());
  // Copies that nobody goes back to.
  std::set<std::string> used;
  for (const auto& [name, kept] : state.kept.items()) {
    used.insert(version_in(kept).digest);
    used.insert(version_in(kept.value("before", json::object())).digest);
  }
  for (const auto& [name, model] : state.models)
    if (model.next) used.insert(model.next->digest);
  const auto copies = options.files->list(options.copies);
  if (!copies) return;
  for (const storage::Entry& copy : *copies)
    if (!used.contains(copy.name.substr(0, copy.name.find('.'))))
      static_cast<void>(options.files->remove(options.copies / copy.name));
}

namespace {

constexpr std::size_t kMostModels = 4096;  // of others, whose versions are remembered
constexpr std::uint64_t kMostBytes = 16 << 20;

storage::Path versions_file(const ServingOptions& options) {
  return options.remembered.parent_path() / "model_versions.json";
}

// Whether it is news.
bool note(State& state, const std::string& name, const ModelVersion& version) {
  ModelVersion& known = state.newest[name];
  if (version.number <= known.number) return false;
  known = version;
  return true;
}

void write_versions(const State& state) {
  if (state.options.remembered.empty()) return;
  json all = json::object();
  for (const auto& [name, version] : state.newest)
    all[name] = {{"version", version.number}, {"digest", version.digest}};
  const std::string text = all.dump() + '\n';
  if (auto done = state.options.files->write_atomic(versions_file(state.options), {as_bytes(text)});
      !done)
    log::warning("serving",
                 "numbers of versions are forgotten with a restart: " + done.error().message());
}

void read_versions(State& state) {
  const auto bytes = state.options.files->read(versions_file(state.options), kMostBytes);
  if (!bytes) return;
  const json all = arguments_of(std::string(as_text(*bytes)));
  for (const auto& [name, version] : all.items()) note(state, name, version_in(version));
}

}  // namespace

void note_version(Self* self, const std::string& name, const ModelVersion& version) {
  if (note(self->state, name, version)) write_versions(self->state);
}

void note_versions(Self* self) {
  State& state = self->state;
  auto cluster = state.options.cluster->read();
  if (cluster == state.noted) return;
  bool news = false;
  for (const auto& [name, version] : newest_versions(*cluster))
    if (state.newest.contains(name) || state.newest.size() < kMostModels)
      news = note(state, name, version) || news;
  if (news) write_versions(state);
  state.noted = std::move(cluster);
}

void take_up(Self* self) {
  const ServingOptions& options = self->state.options;
  if (options.remembered.empty()) return;
  read_versions(self->state);
  auto bytes = options.files->read(options.remembered, kMostBytes);
  if (!bytes) return;  // nothing was served
  const json kept = self->state.kept = arguments_of(std::string(as_text(*bytes)));
  for (const auto& [name, from] : kept.items()) {
    Loading loading{.source = source_in(from), .taken_up = true, .draft_may_lack = true};
    if (loading.source.copy) loading.digest = version_in(from).digest;
    loading.answer =
        warn_if_failed("model " + name + " is not served any more: ",
                       "; the next start tries again, `gpunode unserve " + name + "` forgets it");
    begin(self, name, std::move(loading));
  }
}

}  // namespace gpunode::inference::detail
