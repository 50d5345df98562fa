#include "actors/inference/serving_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <set>

#include "actors/inference/detail/infer_orders.hpp"
#include "actors/inference/detail/serving_state.hpp"
#include "actors/inference/detail/text_orders.hpp"
#include "actors/inference/model_name.hpp"
#include "actors/inference/part_name.hpp"
#include "actors/json_answer.hpp"
#include "actors/mailbox.hpp"

namespace gpunode::inference {
namespace {

using detail::Answer;
using detail::Loading;
using detail::Model;
using detail::Self;
using detail::State;
using nlohmann::json;

// So often it is looked whether others serve a newer version of what is a copy here.
constexpr auto kFollowEvery = std::chrono::milliseconds(500);

// Of a model that no node is known to serve: a moment for the news of a fresh `serve`, no longer.
constexpr int kLooksForNews = 15;

Error not_served(Self* self, const std::string& name) {
  std::string others;
  const auto cluster = self->state.options.cluster->read();
  for (const OfferedVersion& offer : offered_versions(*cluster, name))
    for (const NodeId& holder : offer.holders)
      if (holder != cluster->self)
        others += (others.empty() ? "" : ", ") + cluster->name_of(holder);
  std::string parts;
  for (const auto& [served, model] : self->state.models)
    if (names_part(served) && model_of(served) == name) parts += ", and has its part " + served;
  return {ErrorCode::not_found,
          "this node serves no model named '" + name + "'" + parts +
              (others.empty() ? "; `gpunode models` lists what is served"
                              : "; it is served by " + others + ": say it there")};
}

// Answers when its memory is free.
void unserve(Self* self, const Command& command) {
  State& state = self->state;
  const auto name = field<std::string>(arguments_of(command.arguments), "model", "");
  const auto found = state.models.find(name);
  const bool is_here = found != state.models.end() &&
                       (found->second.now || found->second.next || found->second.asleep);
  // One that could not be served since the node was started.
  if (!is_here && state.kept.erase(name) > 0) {
    remember(self);
    return command.answer(ok_json({{"model", name}}));
  }
  if (!is_here) return command.answer(error_json(not_served(self, name)));
  Model& model = found->second;
  const bool has_actor = model.next || model.now;
  model.unserved = command.answer;
  state.kept.erase(name);
  remember(self);
  if (model.next)
    give_up(self, name, {ErrorCode::cancelled, "model " + name + " was withdrawn meanwhile"});
  if (model.now || model.asleep) withdraw(self, name);
  if (has_actor) return;
  state.models.erase(found);
  command.answer(ok_json({{"model", name}}));
}

// Under this name, what is meant: beside what answers under it, if that is to be replaced.
void serve_as(Self* self, const std::string& name, Loading loading) {
  const Answer answer = loading.answer;
  const bool is_part = !loading.source.part.empty();
  if (auto good = check_model_name(is_part ? model_of(name) : name); !good)
    return answer(error_json(good.error()));
  if (self->state.leaving)
    return answer(error_json({ErrorCode::cancelled, "this node leaves the cluster"}));
  const auto here = self->state.models.find(name);
  const bool is_here = here != self->state.models.end();
  if (is_here && (here->second.next || here->second.unserved))
    return answer(
        error_json({ErrorCode::wrong_state,
                    "model " + name + " is being " + (here->second.next ? "loaded" : "withdrawn") +
                        " right now: wait for that, or `gpunode unserve " + name + "`"}));
  if (is_here && !loading.replace)
    return answer(
        error_json({ErrorCode::already_exists,
                    "this node serves a model named '" + name +
                        "' already: --replace puts this one in its place while calls go on, "
                        "`gpunode unserve " +
                        name + "` withdraws it, and --name gives this one another name"}));
  if (!loading.source.weights.empty())
    if (const auto format = ops::weight_format_of(loading.source.weights); !format)
      return answer(error_json(format.error()));
  begin(self, name, std::move(loading));
}

// What the one that is served has replaced, once more.
void roll_back(Self* self, const std::string& name, const Answer& answer) {
  const auto kept = self->state.kept.find(name);
  if (kept == self->state.kept.end()) return answer(error_json(not_served(self, name)));
  const json before = kept->value("before", json());
  if (!before.is_object())
    return answer(
        error_json({ErrorCode::not_found, "model " + name +
                                              " has replaced none on this node: there is nothing "
                                              "to go back to"}));
  Loading loading{.source = source_in(before),
                  .digest = version_in(before).digest,
                  .anew = true,
                  .answer = answer};
  // It is this one, whatever others serve, and whichever checkpoint is the newest by now.
  loading.source.pinned = 0;
  if (!loading.source.copy) loading.source.path = field<std::string>(before, "at", "");
  loading.source.job.clear();
  loading.replace = true;
  serve_as(self, name, std::move(loading));
}

void serve_job(Self* self, const std::string& job, std::string name, Loading loading) {
  // Which job is meant the board knows.
  const auto on_found = [me = caf::actor(self), name = std::move(name),
                         loading = std::move(loading)](const std::string& text) {
    const auto found = parsed_answer(text);
    if (!found) return loading.answer(error_json(found.error()));
    const auto called = field<std::string>(*found, "name", "");
    if (field<bool>(*found, "waits", false))
      return loading.answer(error_json(
          {ErrorCode::wrong_state, "job '" + called +
                                       "' waits in the queue, and has no checkpoint to serve yet; "
                                       "`gpunode jobs` tells what it waits for"}));
    detail::Again again{name.empty() ? called : name, loading};
    again.loading.source.job = field<std::string>(*found, "job", "");
    again.loading.steps = field<std::uint64_t>(*found, "steps", 0);
    caf::anon_send(me, std::move(again));
  };
  self->send(self->state.options.job_board,
             Command{"job.find", json{{"job", job}}.dump(), on_found});
}

// As the model, or for the node that has its first part.
void serve_part(Self* self, const std::string& model, const std::string& text, Loading loading) {
  const auto refused = [&](std::string why) {
    return loading.answer(error_json({ErrorCode::unsupported, std::move(why)}));
  };
  const auto part = part_of_text(text);
  if (!part) return loading.answer(error_json(part.error()));
  if (auto good = check_model_name(model); !good) return loading.answer(error_json(good.error()));
  if (loading.source.path.empty() || loading.source.copy)
    return refused("a part is served from a path, where the whole model lies on this node's disk");
  if (loading.source.idle_seconds > 0)
    return refused("a part of a model does not sleep: leave --idle out");
  if (loading.replace && !is_head(*part))
    return refused("heads count on this part: `gpunode unserve " + served_name(model, *part) +
                   "` withdraws it, or serve the new model under another name");
  loading.source.part = text_of(*part);
  serve_as(self, served_name(model, *part), std::move(loading));
}

void serve(Self* self, const Command& command) {
  const json arguments = arguments_of(command.arguments);
  const auto name = field<std::string>(arguments, "name", "");
  if (field<bool>(arguments, "rollback", false)) return roll_back(self, name, command.answer);
  Loading loading{.source = {.path = field<std::string>(arguments, "path", ""),
                             .job = {},
                             .weights = field<std::string>(arguments, "weights", ""),
                             .copy = field<bool>(arguments, "copy", false),
                             .pinned = field<std::uint64_t>(arguments, "version", 0),
                             .idle_seconds = field<std::uint64_t>(arguments, "idle_seconds", 0),
                             .draft = field<std::string>(arguments, "draft", ""),
                             .deterministic = field<bool>(arguments, "deterministic", false)},
                  .answer = command.answer,
                  .replace = field<bool>(arguments, "replace", false),
                  .looks = kLooksForNews};
  if (const auto part = field<std::string>(arguments, "part", ""); !part.empty())
    return serve_part(self, name, part, std::move(loading));
  if (loading.source.path.empty() && !loading.source.copy)
    return serve_job(self, field<std::string>(arguments, "job", ""), name, std::move(loading));
  serve_as(self, name, std::move(loading));
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
    facts["version"] = field<std::uint64_t>(told, "version", 0);
    for (const char* const known : {"asleep", "deterministic"})
      if (field<bool>(told, known, false)) facts[known] = true;
    for (const char* const known : {"job", "draft", "part"})
      if (const auto text = field<std::string>(told, known, ""); !text.empty()) facts[known] = text;
  }
  return facts;
}

constexpr std::string_view kServiceOfModel = "service/model/", kModel = "model/";

// What the entry says is served: a model, which can be called, or a part of one; empty: neither.
std::string served_in(const DirectoryEntry& entry) {
  if (entry.key.starts_with(kServiceOfModel)) {
    std::string name = entry.key.substr(kServiceOfModel.size());
    return names_version(name) ? "" : name;
  }
  if (!entry.key.starts_with(kModel)) return "";
  std::string name = entry.key.substr(kModel.size());
  return names_part(name) ? name : "";
}

void list_models(Self* self, const Command& command) {
  auto cluster = self->state.options.cluster->read();
  auto list = nlohmann::json::array();
  for (const DirectoryEntry& entry : cluster->entries)
    if (const std::string name = served_in(entry); !name.empty()) {
      const auto own = self->state.models.find(name);  // known here before the directory shows it
      const bool withdrawn =
          entry.owner == cluster->self &&
          (own == self->state.models.end() || (!own->second.now && !own->second.asleep));
      if (withdrawn) continue;
      nlohmann::json line = facts_in(*cluster, entry.owner, name);
      line["model"] = name;
      line["node"] = cluster->name_of(entry.owner);
      list.push_back(std::move(line));
    }
  command.answer(ok_json({{"models", list}}));
}

caf::behavior behaviour(Self* self, std::shared_ptr<ServingOptions> options) {
  self->state.options = std::move(*options);
  expect_known_messages(self);
  self->set_down_handler([self](const caf::down_msg& down) { detail::on_down(self, down); });
  self->send(self->state.options.calls,
             Publish{kCopyCall, CopyShelf::answers(self->state.shelf), false});
  self->send(self->state.options.calls,
             Publish{kPartCall, PartShelf::answers(self->state.parts, self->system()), false});
  self->send(self->state.options.calls,
             Publish{kPieceCall, answer_pieces(self->state.streams), false});
  take_up(self);
  self->delayed_send(self, kFollowEvery, Tick{});
  return {
      [self](const Command& command) {
        if (command.name == "serve") return serve(self, command);
        if (command.name == "unserve") return unserve(self, command);
        if (command.name == "generate")
          return order_text(self->state.options, self->state.streams,
                            text_order_of(command, *self->state.options.clock));
        if (command.name == "model.describe")
          return order_infer(
              *self->state.options.cluster,
              [self](CallRequest request) {
                self->send(self->state.options.calls, std::move(request));
              },
              describe_order_of(command));
        list_models(self, command);
      },
      [self](const GenerateText& order) {
        order_text(self->state.options, self->state.streams, order);
      },
      [self](const Loaded& loaded) { detail::on_loaded(self, loaded); },
      [self](const MovedBytes& moved) {
        for (const auto& [name, model] : self->state.models)
          if (model.now && model.now->actor == moved.model && model.now->source.part.empty())
            self->state.shelf->put(moved.digest, moved.bytes, moved.model);
      },
      [self](const detail::Again& again) { serve_as(self, again.name, again.loading); },
      [self](const Tick&) {
        self->delayed_send(self, kFollowEvery, Tick{});
        follow(self);
      },
      [self](const IsIdle& idle) { fall_asleep(self, idle); },
      [self](const detail::WakeCall& call) { wake(self, call); },
      [self](const Leave& order) { leave(self, order); },
      [self](const Shutdown& shutdown) {
        // Ahead of the requests that wait: those are answered by their end.
        for (auto& [name, model] : self->state.models) {
          if (model.now) self->send<caf::message_priority::high>(model.now->actor, shutdown);
          if (!model.next) continue;
          model.next->stop.request_stop();
          self->send<caf::message_priority::high>(model.next->actor, shutdown);
        }
        for (const auto& [actor, name] : self->state.drained)
          if (const auto drained = caf::actor_cast<caf::actor>(actor))
            self->send<caf::message_priority::high>(drained, shutdown);
        self->quit();
      },
  };
}

}  // namespace

std::vector<std::string> served_models(const ClusterSnapshot& cluster) {
  std::set<std::string> names;
  for (const DirectoryEntry& entry : cluster.entries)
    if (entry.key.starts_with(kServiceOfModel) && !names_version(entry.key) &&
        (entry.owner == cluster.self || cluster.alive(entry.owner)))
      names.insert(entry.key.substr(kServiceOfModel.size()));
  return {names.begin(), names.end()};
}

bool sleeps(const ClusterSnapshot& cluster, const std::string& model) {
  bool served = false;
  for (const DirectoryEntry& entry : cluster.entries) {
    if (entry.key != call_name(model) || !cluster.alive(entry.owner)) continue;
    served = true;
    const json told = arguments_of(std::string(as_text(entry.value)));
    if (!field<bool>(told, "asleep", false)) return false;
  }
  return served;
}

caf::actor spawn_serving(caf::actor_system& system, ServingOptions options) {
  return system.spawn(behaviour, std::make_shared<ServingOptions>(std::move(options)));
}

}  // namespace gpunode::inference
