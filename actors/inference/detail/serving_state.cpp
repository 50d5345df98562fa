#include "actors/inference/detail/serving_state.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>

#include <algorithm>

#include "actors/inference/detail/job_checkpoints.hpp"
#include "actors/inference/detail/model_copy.hpp"
#include "actors/inference/detail/part_orders.hpp"
#include "actors/inference/detail/serving_told.hpp"
#include "actors/inference/detail/text_orders.hpp"
#include "actors/inference/part_name.hpp"
#include "actors/json_answer.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::inference::detail {
namespace {

using nlohmann::json;

// What another node has just begun to serve is known here by then.
constexpr auto kPartsWithin = std::chrono::seconds(2);
constexpr auto kLookForNews = std::chrono::milliseconds(200);
// Who is drained has so long to answer what it was asked; a leaving node has no longer either.
constexpr auto kDrainWithin = std::chrono::seconds(20);
// A version that could not be had is tried again after so long, then twice as long, up to the last.
constexpr Duration kFirstRetry = std::chrono::seconds(2), kLongestRetry = std::chrono::minutes(2);

Time now_of(Self* self) {
  return self->state.options.clock->now();
}

// Live nodes that serve the digest under the name, but this one.
std::function<std::vector<NodeId>()> holders_of(const ServingOptions& options,
                                                const std::string& name,
                                                const std::string& digest) {
  return [cluster = options.cluster, name, digest] {
    const auto known = cluster->read();
    for (OfferedVersion& offer : offered_versions(*known, name)) {
      if (offer.version.digest != digest) continue;
      std::erase(offer.holders, known->self);
      return std::move(offer.holders);
    }
    return std::vector<NodeId>{};
  };
}

// Which version a copy is to be of. Fails with not_found.
Result<ModelVersion> version_to_copy(const ServingOptions& options, const std::string& name,
                                     const ModelSource& source) {
  const auto offers = offered_versions(*options.cluster->read(), name);
  if (const auto* offer = wanted_of(offers, source.pinned)) return offer->version;
  std::string others;
  for (const OfferedVersion& one : offers)
    others += (others.empty() ? "" : ", ") + std::to_string(one.version.number);
  return Error{
      ErrorCode::not_found,
      "no live node serves " +
          (source.pinned > 0 ? "version " + std::to_string(source.pinned) + " of " : "") +
          "a model named '" + name + "'" +
          (others.empty() ? "; `gpunode models` lists what is served" : ": there is " + others)};
}

// The checkpoint, or where a copy is kept on this node's disk. Fails with what newest_checkpoint() and
// version_to_copy() fail with.
Result<void> choose_source(Self* self, const std::string& name, Loading& loading) {
  const ServingOptions& options = self->state.options;
  if (loading.source.copy) {
    // As it was served before the node was started, until it is seen what others serve.
    if (loading.digest.empty()) {
      const auto version = version_to_copy(options, name, loading.source);
      if (!version) return version.error();
      loading.digest = version->digest;
    }
    loading.source.path = (options.copies / loading.digest).string();
    return {};
  }
  // One that slept is the one that it was.
  if (loading.source.job.empty() || !loading.source.path.empty()) return {};
  auto found = newest_checkpoint(options, loading.source.job, loading.taken_up);
  if (!found) return found.error().within("job " + loading.source.job.substr(0, 8));
  loading.key = *found;
  loading.source.path =
      snapshot::CheckpointStore(*options.files, options.checkpoints).path_of(*found).string();
  return {};
}

void load(Self* self, const std::string& name, const Loading& loading) {
  const ServingOptions& options = self->state.options;
  ServedModel::Options is{.device = loading.device,
                          .user = "model " + name,
                          .files = options.files,
                          .clock = options.clock,
                          .path = loading.source.path};
  is.draft = loading.source.draft;
  is.draft_may_lack = loading.draft_may_lack;
  is.independent_rows = loading.source.deterministic;
  if (const auto format = ops::weight_format_of(loading.source.weights)) is.weights = *format;
  if (loading.source.copy && !options.files->exists(loading.source.path))
    is.take = [order = CopyOrder{.model = name,
                                 .digest = *storage::Sha256::parse(loading.digest),
                                 .holders = holders_of(options, name, loading.digest),
                                 .calls = options.calls,
                                 .clock = options.clock,
                                 .stop = loading.stop.get_token()}](
                  const ServedModel::Options::Room& room) { return copy_model(order, room); };
  if (!loading.source.part.empty()) {
    is.part = *part_of_text(loading.source.part);
    is.parts = part_access(options, model_of(name));
    is.name = model_of(name);
    is.parts_within = kPartsWithin;
  }
  self->send(loading.actor, Load{std::move(is), options.choose_device});
}

// What others may ask this node for.
void put_on_shelf(Self* self, const Serving& serving, const ModelBytes& bytes) {
  const std::string& digest = serving.version.digest;
  if (serving.source.part.empty()) return self->state.shelf->put(digest, bytes, serving.actor);
  const checkpoint::PartChoice part = *part_of_text(serving.source.part);
  if (is_head(part)) return;
  self->state.parts->put({*storage::Sha256::parse(digest), static_cast<std::uint32_t>(part.number),
                          static_cast<std::uint32_t>(part.of)},
                         serving.actor);
}

// A copy, on this node's disk, while it answers already. One on a device is taken from others again.
void keep_on_disk(Self* self, const std::string& name, const Serving& serving,
                  const ModelBytes& bytes) {
  storage::FileSystem* files = self->state.options.files;
  if (!serving.source.copy || bytes.image.empty() || files->exists(serving.source.path)) return;
  self->spawn<caf::detached>([name, bytes, files, folder = serving.source.path] {
    keep_copy(name, *bytes.is, bytes.image.view, *files, folder);
  });
}

void drain(Self* self, const std::string& name, const caf::actor& actor) {
  self->state.shelf->take(actor);
  self->state.parts->take(actor);
  self->state.drained[actor.address()] = name;
  self->send(actor, Drain{now_of(self) + kDrainWithin});
}

// Calls go to it from now on; `told`: to the others.
void publish(Self* self, const std::string& name, const Serving& serving,
             const CallHandler& handler, json told) {
  const ServingOptions& options = self->state.options;
  const bool asleep = !serving.actor;
  if (!names_part(name))  // which heads call by the digest
    for (const std::string& called :
         {call_name(name), pinned_call_name(name, serving.version.number)})
      self->send(options.calls, Publish{called, handler, true, false, asleep});
  if (asleep) told["asleep"] = true;
  self->send(options.directory_writer, SetEntry{call_name(name), to_bytes(as_bytes(told.dump()))});
}

// Nobody calls it any more.
void unpublish(Self* self, const std::string& name, const Serving& serving) {
  const ServingOptions& options = self->state.options;
  if (!names_part(name))
    for (const std::string& called :
         {call_name(name), pinned_call_name(name, serving.version.number)})
      self->send(options.calls, Publish{called, nullptr, true});
  self->send(options.directory_writer, SetEntry{call_name(name), {}});
}

// Those that waited for it.
void pass_on(Self* self, Model& model) {
  const CallHandler handler = answer_by(replica_of(*model.now), self->state.options);
  for (WakeCall& call : std::exchange(model.calls, {}))
    handler(call.from, std::move(call.request), std::move(call.reply));
}

void fail(Self* self, const std::string& name, Model& model, const Error& error) {
  Loading failed = std::move(*model.next);
  model.next.reset();
  self->send(failed.actor, Shutdown{});
  if (failed.source.copy) {
    State::Retry& retry = self->state.retries[name];
    retry.wait = retry.wait == Duration{} ? kFirstRetry : std::min(kLongestRetry, retry.wait * 2);
    retry.at = now_of(self) + retry.wait;
  }
  // Who called is not to wait for another try; another replica may answer.
  for (WakeCall& call : std::exchange(model.calls, {}))
    call.reply(Error{ErrorCode::unavailable, "the model could not be loaded: " + error.message()});
  if (!model.now && !model.asleep && !model.unserved) self->state.models.erase(name);
  if (failed.answer) failed.answer(error_json(error));
}

}  // namespace

Answer warn_if_failed(std::string what, std::string remedy) {
  return [what = std::move(what), remedy = std::move(remedy)](const std::string& answer) {
    const json told = arguments_of(answer);
    if (field<bool>(told, "ok", false)) return;
    const auto why = field<json>(told, "error", json::object());
    log::warning("serving",
                 what + field<std::string>(why, "detail", "no reason is known") + remedy);
  };
}

void begin(Self* self, const std::string& name, Loading loading) {
  State& state = self->state;
  if (const std::string& part = loading.source.part; !part.empty())
    if (auto good = part_of_text(part); !good) return loading.answer(error_json(good.error()));
  if (auto chosen = choose_source(self, name, loading); !chosen) {
    const bool is_early =
        chosen.error().code == ErrorCode::not_found && loading.source.copy && loading.looks > 0;
    if (!is_early) return loading.answer(error_json(chosen.error()));
    --loading.looks;
    return static_cast<void>(self->delayed_send(self, kLookForNews, Again{name, loading}));
  }
  auto device = state.options.choose_device();
  if (!device) return loading.answer(error_json(device.error()));
  Model& model = state.models[name];
  loading.device = *device;
  loading.pulse = ModelPulses::name_of(name, ++state.loads);
  loading.actor =
      names_part(name)
          ? spawn_part(self->system(), caf::actor(self), name)
          : spawn_model(self->system(),
                        {caf::actor(self), name, state.options.metrics, state.options.clock,
                         state.options.pulses, std::chrono::seconds(loading.source.idle_seconds),
                         loading.pulse});
  self->monitor(loading.actor);
  model.next = std::move(loading);
  load(self, name, *model.next);
}

// A head that is to take the place of what answers. Fails with unavailable.
Result<void> has_its_parts(const ClusterSnapshot& cluster, const std::string& model,
                           const std::string& part, const std::string& digest) {
  const auto missing = missing_parts(cluster, model, part, digest);
  if (missing.empty()) return {};
  return {
      ErrorCode::unavailable,
      "no node serves part " + missing.front() + " of " + digest.substr(0, 12) +
          " yet, and what is served under the name now answers: serve the parts under a name of "
          "their own first"};
}

void on_loaded(Self* self, const Loaded& loaded) {
  State& state = self->state;
  const auto it = state.models.find(loaded.name);
  if (it == state.models.end()) return;
  Model& model = it->second;
  if (!model.next || model.next->actor.address() != loaded.from) return;
  Loading& next = *model.next;
  if (!loaded.facts && next.key && loaded.facts.error().code == ErrorCode::corrupted) {
    snapshot::CheckpointStore store(*state.options.files, state.options.checkpoints);
    const Error damage = set_aside(store, *next.key, loaded.facts.error());
    next.source.path.clear();
    // A disk that cannot set anything aside gives the same one again.
    if (next.taken_up && !store.open(*next.key) && choose_source(self, loaded.name, next))
      return load(self, loaded.name, next);
    return fail(self, loaded.name, model, damage);
  }
  if (!loaded.facts) {
    // A copy that the disk has spoilt is taken anew.
    if (next.source.copy && loaded.facts.error().code == ErrorCode::corrupted)
      static_cast<void>(state.options.files->remove(next.source.path));
    return fail(self, loaded.name, model, loaded.facts.error());
  }
  const ModelFacts& facts = *loaded.facts;
  if (!next.digest.empty() && facts.digest != next.digest)
    return fail(
        self, loaded.name, model,
        {ErrorCode::corrupted, "what is at " + next.source.path + " is another content now, " +
                                   facts.digest.substr(0, 12) + ", than the " +
                                   next.digest.substr(0, 12) + " that is meant"});
  const auto cluster = state.options.cluster->read();
  if (model.now)
    if (auto whole = has_its_parts(*cluster, loaded.name, next.source.part, facts.digest); !whole)
      return fail(self, loaded.name, model, whole.error());
  const auto offers = offered_versions(*cluster, loaded.name);
  note_versions(self);
  std::vector<ModelVersion> known = {state.newest[loaded.name]};
  if (const auto kept = state.kept.find(loaded.name); kept != state.kept.end())
    known.push_back(version_in(*kept));
  Serving serving{next.source, {number_for(offers, facts.digest, known, next.anew), facts.digest},
                  next.actor,  next.pulse,
                  loaded.desk, {}};
  serving.told = facts_told(serving, facts);
  const std::uint64_t steps = next.steps;
  const Answer answer = std::move(next.answer);
  model.next.reset();
  state.retries.erase(loaded.name);
  put_on_shelf(self, serving, loaded.bytes);
  keep(self, loaded.name, serving);
  note_version(self, loaded.name, serving.version);
  keep_on_disk(self, loaded.name, serving, loaded.bytes);
  // Before anybody asks it: the desk is asked past the actor's mailbox.
  if (loaded.desk && loaded.desk->is_open())
    loaded.desk->set_version(serving.version.number);
  else
    self->send<caf::message_priority::high>(serving.actor, SetVersion{serving.version.number});
  publish(self, loaded.name, serving, answer_by(replica_of(serving), state.options), serving.told);
  if (const auto& before = model.now ? model.now : model.asleep;
      before && before->version.number != serving.version.number)
    self->send(state.options.calls,
               Publish{pinned_call_name(loaded.name, before->version.number), nullptr, true});
  if (model.now) drain(self, loaded.name, model.now->actor);
  model.asleep.reset();
  log::info("serving", "model " + loaded.name + " is ready (" + facts.description + "), version " +
                           std::to_string(serving.version.number));
  model.now = serving;
  pass_on(self, model);
  json told = told_to_asker(*cluster, loaded.name, serving, facts);
  if (steps > 0) told["steps"] = steps;
  if (answer) answer(ok_json(std::move(told)));
}

void withdraw(Self* self, const std::string& name) {
  State& state = self->state;
  Model& model = state.models[name];
  const Serving serving = model.now ? *model.now : *model.asleep;
  model.now.reset();
  model.asleep.reset();
  unpublish(self, name, serving);
  if (serving.actor) drain(self, name, serving.actor);
}

void fall_asleep(Self* self, const IsIdle& idle) {
  for (auto& [name, model] : self->state.models) {
    if (!model.now || model.now->actor.address() != idle.model || model.next) continue;
    log::info("serving", "model " + name + " was asked nothing for " +
                             std::to_string(model.now->source.idle_seconds) +
                             " s: its memory is given back until it is");
    model.asleep = std::exchange(model.now, {});
    const caf::actor actor = std::exchange(model.asleep->actor, {});
    publish(
        self, name, *model.asleep,
        [me = caf::actor(self), name = name](const NodeId& from, SharedBytes request,
                                             CallReply reply) {
          caf::anon_send(me, WakeCall{name, from, std::move(request), std::move(reply)});
        },
        model.asleep->told);
    return drain(self, name, actor);
  }
}

void wake(Self* self, WakeCall call) {
  constexpr std::size_t kMostWaiting = 1024;
  State& state = self->state;
  const auto it = state.models.find(call.name);
  if (it == state.models.end() || state.leaving)
    return call.reply(Error{ErrorCode::unavailable, "the model is not served here any more"});
  Model& model = it->second;
  if (model.now) {
    model.calls.push_back(std::move(call));
    return pass_on(self, model);
  }
  if (model.calls.size() >= kMostWaiting)
    return call.reply(Error{ErrorCode::resource_exhausted,
                            std::to_string(kMostWaiting) + " requests wait for model " + call.name +
                                ", which is being loaded: try again later"});
  const std::string name = call.name;
  model.calls.push_back(std::move(call));
  if (model.next || !model.asleep) return;
  begin(self, name,
        {.source = model.asleep->source,
         .digest = model.asleep->version.digest,
         .draft_may_lack = true,
         .answer = warn_if_failed("model " + name + " could not be loaded again: ")});
}

void give_up(Self* self, const std::string& name, const Error& why) {
  State& state = self->state;
  Loading given_up = std::move(*state.models[name].next);
  state.models[name].next.reset();
  given_up.stop.request_stop();
  state.drained[given_up.actor.address()] = name;
  self->send<caf::message_priority::high>(given_up.actor, Shutdown{});
  given_up.answer(error_json(why));
}

void leave(Self* self, const Leave& order) {
  State& state = self->state;
  state.leaving = order;
  for (auto& [name, model] : state.models) {
    if (model.next) give_up(self, name, {ErrorCode::cancelled, "this node leaves the cluster"});
    if (model.now || model.asleep) withdraw(self, name);
  }
  if (state.drained.empty()) (*state.leaving->left)(true);
}

void on_down(Self* self, const caf::down_msg& down) {
  State& state = self->state;
  if (const auto ended = state.drained.extract(down.source)) {
    const std::string& name = ended.mapped();
    if (state.leaving && state.drained.empty()) (*state.leaving->left)(true);
    const auto it = state.models.find(name);
    if (it == state.models.end() || !it->second.unserved) return;
    log::info("serving", "model " + name + " is not served any more");
    const Answer answer = std::move(it->second.unserved);
    if (!it->second.next) state.models.erase(it);
    return answer(ok_json({{"model", name}}));
  }
  for (auto& [name, model] : state.models) {
    const std::string reason = "model " + name + " ended: " + to_string(down.reason);
    if (model.now && model.now->actor.address() == down.source) {
      log::error("serving", reason);
      withdraw(self, name);
      state.drained.erase(down.source);
      if (!model.next) state.models.erase(name);
      return;
    }
    if (model.next && model.next->actor.address() == down.source) {
      log::error("serving", reason);
      return fail(self, name, model, {ErrorCode::internal, reason});
    }
  }
}

void follow(Self* self) {
  State& state = self->state;
  if (state.leaving) return;
  note_versions(self);
  static const Model nothing;
  for (const auto& [name, kept] : state.kept.items()) {
    const ModelSource source = source_in(kept);
    if (!source.copy) continue;
    const auto found = state.models.find(name);
    const Model& model = found == state.models.end() ? nothing : found->second;
    if (model.next || model.unserved) continue;
    const auto& now = model.now ? model.now : model.asleep;
    const auto offers = offered_versions(*state.options.cluster->read(), name);
    const OfferedVersion* wanted = wanted_of(offers, source.pinned);
    if (!wanted ||
        (now && (now->version == wanted->version || now->version.number > wanted->version.number)))
      continue;
    const auto retry = state.retries.find(name);
    if (retry != state.retries.end() && now_of(self) < retry->second.at) continue;
    log::info("serving", "model " + name + ": version " + std::to_string(wanted->version.number) +
                             " is taken from " + std::to_string(wanted->holders.size()) + " nodes");
    begin(self, name,
          {.source = source,
           .digest = wanted->version.digest,
           .draft_may_lack = true,
           .answer = warn_if_failed("model " + name + ": its new version could not be had: ")});
  }
}

}  // namespace gpunode::inference::detail
