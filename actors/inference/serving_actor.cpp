#include "actors/inference/serving_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/stateful_actor.hpp>

#include <map>
#include <set>

#include "actors/inference/detail/infer_orders.hpp"
#include "actors/inference/detail/model_actor.hpp"
#include "actors/inference/detail/text_orders.hpp"
#include "actors/json_answer.hpp"
#include "actors/mailbox.hpp"
#include "runtime/base/log.hpp"
#include "runtime/snapshot/checkpoint_store.hpp"

namespace gpunode::inference {
namespace {

struct Found {  // the job that a `serve` means
  std::string name, job, weights;
  std::uint64_t steps = 0;  // its last one; 0: not known
  std::function<void(std::string)> answer;
};
struct Model {
  caf::actor actor;
  std::string job;  // id, whose newest checkpoint it is; empty: of a path
  std::optional<snapshot::CheckpointKey> key;  // of that
  std::string path;
  std::string weights;                    // the format that is asked for; empty: as they are stored
  compute::NodeDevice* device = nullptr;  // it is loaded to
  std::uint64_t steps = 0;                // the job's last one; 0: not known
  // Of an earlier start: an older checkpoint does as well, as somebody counts on an answer.
  bool taken_up = false;
  bool ready = false;
  std::function<void(std::string)> answer;  // of the `serve` or `unserve` that waits for it
};
struct State {
  static inline const char* name = "serving";
  ServingOptions options;
  std::map<std::string, Model> models;
  std::shared_ptr<TextStreams> streams = std::make_shared<TextStreams>();
  nlohmann::json kept = nlohmann::json::object();  // by name what is served, for the next start
};
using Self = caf::stateful_actor<State>;

// Its job's node notices, and looks for what is left. Tells what was done, and logs it.
Error set_aside(snapshot::CheckpointStore& store, const snapshot::CheckpointKey& key,
                const Error& why) {
  auto aside = store.set_aside(key, why.message());
  const std::string text =
      "the checkpoint of step " + std::to_string(key.step) + " of job " +
      key.job.text().substr(0, 8) + " is damaged: " + why.message() + "; " +
      (aside ? "it is kept in " + aside->path.string() : aside.error().message());
  log::warning("serving", text);
  return {ErrorCode::corrupted,
          text +
              "; another `gpunode serve` takes the newest one that is left on this node, if "
              "there is one, and another node may hold it whole (`gpunode checkpoint ls` there)"};
}

// The newest durable checkpoint of the job with this id. Those that turn out to be damaged on the
// way are set aside; `any`: an older one does as well then, else corrupted is the answer.
Result<snapshot::CheckpointKey> newest_checkpoint(const ServingOptions& options,
                                                  const std::string& job, bool any) {
  snapshot::CheckpointStore store(*options.files, options.checkpoints);
  auto keys = store.list();
  if (!keys && keys.error().code != ErrorCode::not_found) return keys.error();
  std::optional<snapshot::CheckpointKey> newest;
  std::optional<Error> damage;  // of one that is newer
  for (const snapshot::CheckpointKey& key : keys ? *keys : std::vector<snapshot::CheckpointKey>{}) {
    if (key.job.text() != job) continue;
    auto checkpoint = store.open(key);
    if (checkpoint) {
      newest = key;
      damage.reset();
    } else if (checkpoint.error().code == ErrorCode::corrupted) {
      damage = set_aside(store, key, checkpoint.error());
    }
  }
  if (damage && !any) return *damage;
  if (!newest)
    return Error{ErrorCode::not_found,
                 "no durable checkpoint of it is on this node; `gpunode "
                 "checkpoint ls` lists them on the nodes that have one"};
  return *newest;
}

Result<void> choose_newest(const ServingOptions& options, Model& model) {
  auto found = newest_checkpoint(options, model.job, model.taken_up);
  if (!found) return found.error().within("job " + model.job.substr(0, 8));
  model.key = *found;
  model.path =
      snapshot::CheckpointStore(*options.files, options.checkpoints).path_of(*found).string();
  return {};
}

void load(Self* self, const std::string& name, const Model& model) {
  const ServingOptions& options = self->state.options;
  ServedModel::Options is{.device = model.device,
                          .user = "model " + name,
                          .files = options.files,
                          .clock = options.clock,
                          .path = model.path};
  if (const auto format = ops::weight_format_of(model.weights)) is.weights = *format;
  self->send(model.actor, Load{std::move(is), options.choose_device});
}

// What is served, or was and could not be taken up, for the next start of the node.
void remember(Self* self) {
  const ServingOptions& options = self->state.options;
  if (options.remembered.empty()) return;
  const std::string text = self->state.kept.dump(2) + '\n';
  if (auto done = options.files->write_atomic(options.remembered, {as_bytes(text)}); !done)
    log::warning("serving",
                 "what is served is forgotten with a restart: " + done.error().message());
}

// Answers when the model is ready, or cannot be.
void begin(Self* self, const std::string& name, Model chosen,
           std::function<void(std::string)> answer) {
  State& state = self->state;
  if (chosen.path.empty())
    if (auto found = choose_newest(state.options, chosen); !found)
      return answer(error_json(found.error()));
  auto device = state.options.choose_device();
  if (!device) return answer(error_json(device.error()));
  Model& model = state.models[name] = std::move(chosen);
  model.device = *device;
  model.answer = std::move(answer);
  model.actor = spawn_model(self->system(),
                            {caf::actor(self), name, state.options.metrics, state.options.pulses});
  self->monitor(model.actor);
  load(self, name, model);
}

// As before the node was started again.
void take_up(Self* self) {
  const ServingOptions& options = self->state.options;
  if (options.remembered.empty()) return;
  constexpr std::uint64_t kMostBytes = 1 << 20;
  auto bytes = options.files->read(options.remembered, kMostBytes);
  if (!bytes) return;  // nothing was served
  const nlohmann::json kept = self->state.kept = arguments_of(std::string(as_text(*bytes)));
  for (const auto& [name, from] : kept.items()) {
    Model model;
    model.job = field<std::string>(from, "job", "");
    model.path = field<std::string>(from, "path", "");
    model.weights = field<std::string>(from, "weights", "");
    model.taken_up = true;
    begin(self, name, std::move(model), [name = name](const std::string& answer) {
      const nlohmann::json told = arguments_of(answer);
      if (field<bool>(told, "ok", false)) return;
      const auto why = field<nlohmann::json>(told, "error", nlohmann::json::object());
      log::warning("serving", "model " + name + " is not served any more: " +
                                  field<std::string>(why, "detail", "no reason is known") +
                                  "; the next start tries again, `gpunode unserve " + name +
                                  "` forgets it");
    });
  }
}

// Answers when its memory is free.
void unserve(Self* self, const Command& command) {
  State& state = self->state;
  const auto name = field<std::string>(arguments_of(command.arguments), "model", "");
  const auto found = state.models.find(name);
  // One that could not be served since the node was started.
  if (found == state.models.end() && state.kept.erase(name) > 0) {
    remember(self);
    return command.answer(ok_json({{"model", name}}));
  }
  if (found == state.models.end() || !found->second.ready) {
    std::string others;
    const auto cluster = state.options.cluster->read();
    for (const DirectoryEntry& entry : cluster->entries)
      if (entry.key == "service/" + call_name(name) && entry.owner != cluster->self)
        others += (others.empty() ? "" : ", ") + cluster->name_of(entry.owner);
    return command.answer(
        error_json({ErrorCode::not_found,
                    "this node serves no model named '" + name + "'" +
                        (others.empty() ? "; `gpunode models` lists what is served"
                                        : "; it is served by " + others + ": say it there")}));
  }
  Model& model = found->second;
  model.ready = false;
  model.answer = command.answer;
  state.kept.erase(name);
  remember(self);
  self->send(state.options.calls, Publish{call_name(name), nullptr, true});
  self->send<caf::message_priority::high>(model.actor, Shutdown{});
}

// Under this name, what `chosen` says: from the path, or from the newest checkpoint of the job.
void serve_as(Self* self, const std::string& name, Model chosen,
              const std::function<void(std::string)>& answer) {
  if (name.empty())
    return answer(error_json({ErrorCode::invalid_argument, "a model needs a name"}));
  // It stands in tables, in commands and in keys of the directory.
  if (std::ranges::any_of(name, [](unsigned char letter) {
        return letter <= ' ' || letter == 0x7f || letter == '/';
      }))
    return answer(error_json({ErrorCode::invalid_argument,
                              "a model's name has no spaces, slashes or control characters: "
                              "--name takes letters, digits, '-', '_', '.' and their like"}));
  if (self->state.models.contains(name))
    return answer(
        error_json({ErrorCode::already_exists, "this node serves a model named '" + name +
                                                   "' already: `gpunode unserve " + name +
                                                   "` first, or --name gives this one another"}));
  if (!chosen.weights.empty())
    if (const auto format = ops::weight_format_of(chosen.weights); !format)
      return answer(error_json(format.error()));
  begin(self, name, std::move(chosen), answer);
}

void serve(Self* self, const Command& command) {
  const nlohmann::json arguments = arguments_of(command.arguments);
  const auto path = field<std::string>(arguments, "path", "");
  const auto name = field<std::string>(arguments, "name", "");
  Model chosen;
  chosen.path = path;
  chosen.weights = field<std::string>(arguments, "weights", "");
  if (!path.empty()) return serve_as(self, name, std::move(chosen), command.answer);
  // Which job is meant the board knows.
  const auto on_found = [self, me = caf::actor(self), name, weights = chosen.weights,
                         answer = command.answer](const std::string& text) {
    auto found = parsed_answer(text);
    if (!found) return answer(error_json(found.error()));
    if (field<bool>(*found, "waits", false))
      return answer(error_json(
          {ErrorCode::wrong_state, "job '" + field<std::string>(*found, "name", "") +
                                       "' waits in the queue, and has no checkpoint to serve yet; "
                                       "`gpunode jobs` tells what it waits for"}));
    caf::anon_send(me, Found{name.empty() ? field<std::string>(*found, "name", "") : name,
                             field<std::string>(*found, "job", ""), weights,
                             field<std::uint64_t>(*found, "steps", 0), answer});
  };
  self->send(
      self->state.options.job_board,
      Command{"job.find", nlohmann::json{{"job", field<std::string>(arguments, "job", "")}}.dump(),
              on_found});
}

// Live nodes that serve other weights under the name.
std::vector<std::string> others_that_differ(const ClusterSnapshot& cluster,
                                            const std::string& model, const std::string& digest) {
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : cluster.entries) {
    if (entry.key != call_name(model) || entry.owner == cluster.self || !cluster.alive(entry.owner))
      continue;
    const auto other =
        field<std::string>(arguments_of(std::string(as_text(entry.value))), "digest", digest);
    if (other != digest) names.push_back(cluster.name_of(entry.owner));
  }
  return names;
}

void on_loaded(Self* self, const Loaded& loaded) {
  State& state = self->state;
  auto it = state.models.find(loaded.name);
  if (it == state.models.end()) return;
  Model& model = it->second;
  std::optional<Error> damage;
  if (!loaded.facts && model.key && loaded.facts.error().code == ErrorCode::corrupted) {
    snapshot::CheckpointStore store(*state.options.files, state.options.checkpoints);
    damage = set_aside(store, *model.key, loaded.facts.error());
    // A disk that cannot set anything aside gives the same one again.
    if (model.taken_up && !store.open(*model.key) && choose_newest(state.options, model))
      return load(self, loaded.name, model);
  }
  auto answer = std::move(model.answer);
  if (!loaded.facts) {
    self->send(model.actor, Shutdown{});
    state.models.erase(it);
    return answer(error_json(damage ? *damage : loaded.facts.error()));
  }
  const ModelFacts& facts = *loaded.facts;
  model.ready = true;
  state.kept[loaded.name] = {{"job", model.job},
                             {"path", model.job.empty() ? model.path : ""},
                             {"weights", model.weights}};
  remember(self);
  self->send(
      state.options.calls,
      Publish{call_name(loaded.name), answer_by(model.actor, loaded.name, state.options), true});
  log::info("serving", "model " + loaded.name + " is ready (" + facts.description + ")");
  nlohmann::json told = {{"digest", facts.digest}, {"weights", facts.weights}};
  if (facts.step > 0) told["step"] = facts.step;  // a file does not say of which it is
  if (!model.job.empty()) told["job"] = model.job;
  self->send(state.options.directory_writer,
             SetEntry{call_name(loaded.name), to_bytes(as_bytes(told.dump()))});
  if (model.steps > 0) told["steps"] = model.steps;
  if (auto others = others_that_differ(*state.options.cluster->read(), loaded.name, facts.digest);
      !others.empty())
    told["differs_from"] = std::move(others);
  told["model"] = loaded.name;
  told["path"] = model.path;
  told["description"] = facts.description;
  answer(ok_json(std::move(told)));
}

// What the node tells of a model that it serves: the step and digest of its weights, and the job
// that they are of, unless it was served from a path.
nlohmann::json facts_in(const ClusterSnapshot& cluster, const NodeId& node,
                        const std::string& model) {
  auto facts = nlohmann::json::object();
  for (const DirectoryEntry& entry : cluster.entries) {
    if (entry.owner != node || entry.key != call_name(model)) continue;
    const nlohmann::json told = arguments_of(std::string(as_text(entry.value)));
    if (told.contains("step")) facts["step"] = field<std::uint64_t>(told, "step", 0);
    facts["digest"] = field<std::string>(told, "digest", "");
    facts["weights"] = field<std::string>(told, "weights", "");
    if (const auto job = field<std::string>(told, "job", ""); !job.empty()) facts["job"] = job;
  }
  return facts;
}

constexpr std::string_view kServiceOfModel = "service/model/";

void list_models(Self* self, const Command& command) {
  auto cluster = self->state.options.cluster->read();
  auto list = nlohmann::json::array();
  for (const DirectoryEntry& entry : cluster->entries)
    if (entry.key.starts_with(kServiceOfModel)) {
      const std::string name = entry.key.substr(kServiceOfModel.size());
      const auto own = self->state.models.find(name);  // known here before the directory shows it
      const bool withdrawn =
          entry.owner == cluster->self && (own == self->state.models.end() || !own->second.ready);
      if (withdrawn) continue;
      nlohmann::json line = facts_in(*cluster, entry.owner, name);
      line["model"] = name;
      line["node"] = cluster->name_of(entry.owner);
      list.push_back(std::move(line));
    }
  command.answer(ok_json({{"models", list}}));
}

// A model whose thread ended is withdrawn, so that calls go to other replicas.
void on_down(Self* self, const caf::down_msg& down) {
  auto& models = self->state.models;
  for (auto it = models.begin(); it != models.end(); ++it) {
    if (it->second.actor.address() != down.source) continue;
    const bool asked_for =
        it->second.answer && !it->second.ready && down.reason == caf::exit_reason::normal;
    if (asked_for) {
      log::info("serving", "model " + it->first + " is not served any more");
      it->second.answer(ok_json({{"model", it->first}}));
      models.erase(it);
      return;
    }
    std::string reason = "model " + it->first + " ended: " + to_string(down.reason);
    log::error("serving", reason);
    self->send(self->state.options.calls, Publish{call_name(it->first), nullptr, true});
    if (it->second.answer) it->second.answer(error_json({ErrorCode::internal, reason}));
    models.erase(it);
    return;
  }
}

caf::behavior behaviour(Self* self, std::shared_ptr<ServingOptions> options) {
  self->state.options = std::move(*options);
  expect_known_messages(self);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  self->send(self->state.options.calls,
             Publish{kPieceCall, answer_pieces(self->state.streams), false});
  take_up(self);
  return {
      [self](const Command& command) {
        if (command.name == "serve") return serve(self, command);
        if (command.name == "unserve") return unserve(self, command);
        if (command.name == "generate")
          return order_text(self->state.options, self->state.streams, text_order_of(command));
        list_models(self, command);
      },
      [self](const GenerateText& order) {
        order_text(self->state.options, self->state.streams, order);
      },
      [self](const InferOrder& order) { order_infer(self->state.options, order); },
      [self](const Loaded& loaded) { on_loaded(self, loaded); },
      [self](const Found& found) {
        Model chosen;
        chosen.job = found.job;
        chosen.weights = found.weights;
        chosen.steps = found.steps;
        serve_as(self, found.name, std::move(chosen), found.answer);
      },
      [self](const Shutdown& shutdown) {
        // Ahead of the requests that wait: those are answered by their end.
        for (auto& [name, model] : self->state.models)
          self->send<caf::message_priority::high>(model.actor, shutdown);
        self->quit();
      },
  };
}

}  // namespace

std::vector<std::string> served_models(const ClusterSnapshot& cluster) {
  std::set<std::string> names;
  for (const DirectoryEntry& entry : cluster.entries)
    if (entry.key.starts_with(kServiceOfModel) &&
        (entry.owner == cluster.self || cluster.alive(entry.owner)))
      names.insert(entry.key.substr(kServiceOfModel.size()));
  return {names.begin(), names.end()};
}

caf::actor spawn_serving(caf::actor_system& system, ServingOptions options) {
  return system.spawn(behaviour, std::make_shared<ServingOptions>(std::move(options)));
}

}  // namespace gpunode::inference
