#include "actors/job/job_submission.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "actors/job/job_fitness.hpp"
#include "actors/job/job_plan.hpp"
#include "actors/job/job_rights.hpp"
#include "actors/job/start_agreement.hpp"
#include "actors/job/timeouts.hpp"
#include "actors/json_answer.hpp"
#include "actors/mailbox.hpp"

namespace gpunode::jobs {
namespace {

struct TellNow {};  // a quorum has the job, or has it in the queue, and the rest has had its time
struct NoMore {     // nodes say whether they are fit, if this is still how many have
  std::size_t answers = 0;
};

// Who says nothing of its fitness while others do: where nodes enough are fit, where enough to begin
// with are, and where too few are. It helps later, if it turns out to be fit.
constexpr Duration kForMore = std::chrono::seconds(1);
constexpr Duration kForFew = std::chrono::seconds(5);
constexpr Duration kForTooFew = std::chrono::seconds(60);
constexpr auto kTellWithin = std::chrono::seconds(2);
constexpr auto kCreateTimeout = std::chrono::seconds(20);
constexpr auto kBeginTimeout = std::chrono::seconds(5);

struct State {
  static inline const char* name = "submission";
  SubmissionOptions options;
  Time asked_at{};
  std::set<NodeId> unheard;  // of whether they are fit
  std::vector<FitNode> fit;
  std::vector<Refusal> refused;
  bool passing = false, memory = false;  // some refusal may not last; some is for lack of memory
  job::JobSpec spec;
  Bytes manifest;
  std::vector<NodeId> created_at;
  std::vector<Refusal> not_created;
  std::vector<NodeId> holders;  // where it goes to the queue
  Error why_it_waits;
  bool told = false;
};
using Self = caf::stateful_actor<State>;

// What becomes of a node's answer to a call.
using OnAnswer = void (*)(Self*, const NodeId&, const Result<SharedBytes>&);
struct Answer {
  OnAnswer then;
  NodeId node;
  Result<SharedBytes> answer{SharedBytes{}};
};

std::string name_of(Self* self, const NodeId& node) {
  return self->state.options.cluster->read()->name_of(node);
}

void end(Self* self, std::string text) {
  if (!self->state.told) self->state.options.answer(std::move(text));
  self->state.told = true;
}

void call(Self* self, const NodeId& node, const char* name, SharedBytes request, Duration timeout,
          OnAnswer then) {
  self->send(self->state.options.calls,
             CallRequest{node, name, std::move(request), timeout,
                         [me = caf::actor(self), then, node](Result<SharedBytes> answer) {
                           caf::anon_send(me, Answer{then, node, std::move(answer)});
                         }});
}

// The user has the answer: the job may form there.
void begin_at(Self* self, const NodeId& node) {
  const std::string id = job::job_id(self->state.manifest).text();
  self->send(self->state.options.calls,
             CallRequest{node, "job.begin", SharedBytes::from(to_bytes(as_bytes(id))),
                         kBeginTimeout, [](const auto&) {}});
}

// The user has heard that the job is not started: it is not to start after all.
void withdraw_from(Self* self, const NodeId& node) {
  const SubmissionOptions& options = self->state.options;
  const view::SignedOrder order =
      signed_order(*options.authority,
                   {.job = job::job_id(self->state.manifest), .kind = view::OrderKind::remove},
                   options.clock->wall());
  self->send(options.calls, CallRequest{node, "job.remove", SharedBytes::from(view::encode(order)),
                                        kCreateTimeout, [](const auto&) {}});
}

void on_created(Self* self, const NodeId& node, const Result<SharedBytes>& answer);
void on_kept(Self* self, const NodeId& node, const Result<SharedBytes>& answer);
nlohmann::json refusals(Self* self, const std::vector<Refusal>& refused);

// The job starts with this manifest.
void hand_out(Self* self, Bytes manifest) {
  State& state = self->state;
  auto spec = job::decode(manifest);
  if (spec && spec->candidates.empty())
    spec = Error{ErrorCode::corrupted, "the manifest names no candidates"};
  if (!spec) {
    end(self, error_json(spec.error()));
    return self->quit();
  }
  state.spec = std::move(*spec);
  state.manifest = std::move(manifest);
  for (const NodeId& node : state.spec.candidates)
    call(self, node, "job.create", SharedBytes::from(state.manifest), kCreateTimeout, on_created);
}

struct Agreed {
  Result<Bytes> manifest;
};

void agree_on(Self* self, Bytes manifest) {
  const SubmissionOptions& options = self->state.options;
  spawn_start_agreement(self->system(), {options.queued->id,
                                         options.queued->holders,
                                         {options.queued->round, options.self},
                                         std::move(manifest),
                                         options.calls,
                                         [me = caf::actor(self)](Result<Bytes> agreed) {
                                           caf::anon_send(me, Agreed{std::move(agreed)});
                                         }});
}

// This node first, then those of the smallest ids.
void keep_in_queue(Self* self, const Error& why) {
  State& state = self->state;
  state.why_it_waits = why;
  state.manifest = job::encode(state.options.spec);
  state.holders = {state.options.self};
  const auto cluster = state.options.cluster->read();
  for (const NodeInfo& node : cluster->nodes)
    if (!node.self && cluster->alive(node.id) && state.holders.size() < kMostHolders)
      state.holders.push_back(node.id);
  QueueNote note{job::job_id(state.manifest), {}, state.holders};
  note.vote.manifest = state.manifest;
  for (const NodeId& node : state.holders)
    call(self, node, "queue.keep", SharedBytes::from(encode(note)), kCreateTimeout, on_kept);
}

void tell_waits(Self* self) {
  State& state = self->state;
  const auto cluster = state.options.cluster->read();
  end(self, ok_json({{"job", job::job_id(state.manifest).text()},
                     {"name", state.options.spec.name},
                     {"phase", to_string(JobPhase::waiting)},
                     {"reason", state.why_it_waits.detail},
                     {"held_by", cluster->names_of(state.created_at)},
                     {"nodes_wanted", state.options.spec.nodes},
                     {"refused", refusals(self, state.refused)}}));
}

// Who could not take the job, and why.
std::string reasons_why_not(Self* self) {
  std::string text;
  for (const Refusal& refusal : self->state.not_created)
    text += (text.empty() ? " " : "; ") + name_of(self, refusal.node) + ": " + refusal.reason;
  return text;
}

void on_kept(Self* self, const NodeId& node, const Result<SharedBytes>& answer) {
  State& state = self->state;
  if (answer)
    state.created_at.push_back(node);
  else
    state.not_created.push_back({node, answer.error().detail});
  const std::size_t kept = state.created_at.size(), holders = state.holders.size();
  if (kept + state.not_created.size() < holders) {
    if (answer && kept == holders / 2 + 1) self->delayed_send(self, kTellWithin, TellNow{});
    return;
  }
  if (kept > holders / 2) {
    tell_waits(self);
  } else {
    for (const NodeId& node : state.holders) withdraw_from(self, node);
    end(self,
        error_json({ErrorCode::unavailable,
                    "the job would have to wait (" + state.why_it_waits.detail +
                        "), and too few nodes can hold it in the queue:" + reasons_why_not(self)}));
  }
  self->quit();
}

// What kind of refusal this is: see SubmissionOptions::answer.
Error refusal_of(const State& state, Error why) {
  why.code = state.memory                          ? ErrorCode::out_of_memory
             : state.passing || !state.fit.empty() ? ErrorCode::unavailable
                                                   : ErrorCode::invalid_argument;
  return why;
}

bool may_wait(const State& state, const Error& why) {
  return state.options.may_wait && why.code != ErrorCode::invalid_argument;
}

// Nothing is handed out.
void tell_plan(Self* self, const std::optional<Error>& too_few) {
  State& state = self->state;
  const SubmissionOptions& options = state.options;
  JobPlan plan{*options.only_check, options.refusal, false, state.fit,
               choose(options.spec, state.fit, state.refused, options.self)};
  if (!plan.refusal) plan.refusal = too_few;
  plan.waits = !options.refusal && too_few && may_wait(state, *too_few);
  end(self, ok_json(plan_json(plan, [self](const NodeId& node) { return name_of(self, node); })));
  self->quit();
}

void on_all_answers(Self* self) {
  State& state = self->state;
  auto choice = choose_candidates(state.options.spec, state.fit, state.refused, state.options.self,
                                  [self](const NodeId& node) { return name_of(self, node); });
  std::optional<Error> too_few;
  if (!choice) too_few = refusal_of(state, choice.error());
  if (state.options.only_check) return tell_plan(self, too_few);
  if (!too_few) {
    state.refused = std::move(choice->refused);
    if (!state.options.queued) return hand_out(self, job::encode(choice->spec));
    choice->spec.waited_as = state.options.queued->id.text();
    return agree_on(self, job::encode(choice->spec));
  }
  if (may_wait(state, *too_few)) return keep_in_queue(self, *too_few);
  end(self, error_json(*too_few));
  self->quit();
}

// Whether a node that is refused for this may be fit later without anybody's doing.
bool may_pass(ErrorCode code) {
  return code == ErrorCode::out_of_memory || code == ErrorCode::unavailable ||
         code == ErrorCode::timeout || code == ErrorCode::peer_lost ||
         code == ErrorCode::cancelled || code == ErrorCode::resource_exhausted;
}

std::string why_not(const Error& error) {
  if (error.code != ErrorCode::timeout) return error.detail;
  return "it did not finish its check in " +
         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(kFitnessTimeout).count()) +
         " s: reading its data, or one slice of the model's compute, hangs or takes too long";
}

// How long the others have from now on: one that is silent would else keep any job from starting, for
// a quarter of an hour. Nothing: for as long as such a check may take, as it is looked at again.
std::optional<Duration> time_left(const State& state) {
  const SubmissionOptions& options = state.options;
  const auto fit = choose(options.spec, state.fit, {}, options.self).spec.candidates.size();
  if (fit < options.spec.min_nodes && options.queued) return std::nullopt;
  const Duration least = fit >= options.spec.nodes       ? kForMore
                         : fit >= options.spec.min_nodes ? kForFew
                                                         : kForTooFew;
  return std::max(least, options.clock->now() - state.asked_at);
}

void on_no_more(Self* self, std::size_t answers) {
  State& state = self->state;
  if (state.unheard.empty() || state.fit.size() + state.refused.size() != answers) return;
  for (const NodeId& node : std::exchange(state.unheard, {}))
    state.refused.push_back({node, "it has not told whether it is fit, long after others have"});
  state.passing = true;
  on_all_answers(self);
}

void on_fitness(Self* self, const NodeId& node, const Result<SharedBytes>& answer) {
  State& state = self->state;
  if (state.unheard.erase(node) == 0) return;  // too late
  Result<JobNote> note = answer ? decode_note(answer->view) : Result<JobNote>(answer.error());
  if (note && std::holds_alternative<Fitness>(*note))
    state.fit.push_back({node, std::get<Fitness>(*note)});
  else
    state.refused.push_back({node, note ? "gave no sensible answer" : why_not(note.error())});
  if (!note) {
    state.passing |= may_pass(note.error().code);
    state.memory |= note.error().code == ErrorCode::out_of_memory;
  }
  if (state.unheard.empty()) return on_all_answers(self);
  if (const auto pause = time_left(state))
    self->delayed_send(self, *pause, NoMore{state.fit.size() + state.refused.size()});
}

void ask_all(Self* self) {
  SharedBytes draft = SharedBytes::from(job::encode(self->state.options.spec));
  auto cluster = self->state.options.cluster->read();
  for (const NodeInfo& node : cluster->nodes)
    if (cluster->alive(node.id)) self->state.unheard.insert(node.id);
  self->state.asked_at = self->state.options.clock->now();
  for (const NodeId& node : self->state.unheard)
    call(self, node, "job.fitness", draft, kFitnessTimeout, on_fitness);
  if (self->state.unheard.empty()) on_all_answers(self);  // this node has been put out
}

nlohmann::json refusals(Self* self, const std::vector<Refusal>& refused) {
  auto list = nlohmann::json::array();
  for (const Refusal& refusal : refused)
    list.push_back({{"node", name_of(self, refusal.node)}, {"reason", refusal.reason}});
  return list;
}

// Who has the job on disk by now, who could not store it, and who has not said so yet.
void tell_started(Self* self) {
  State& state = self->state;
  if (state.told) return;
  std::vector<Refusal> refused = state.refused;
  refused.insert(refused.end(), state.not_created.begin(), state.not_created.end());
  std::vector<NodeId> silent;
  for (const NodeId& node : state.spec.candidates) {
    const bool known =
        std::ranges::find(state.created_at, node) != state.created_at.end() ||
        std::ranges::find(state.not_created, node, &Refusal::node) != state.not_created.end();
    if (!known) silent.push_back(node);
  }
  const auto cluster = state.options.cluster->read();
  end(self, ok_json({{"job", job::job_id(state.manifest).text()},
                     {"name", state.spec.name},
                     {"candidates", cluster->names_of(state.spec.candidates)},
                     {"started_on", cluster->names_of(state.created_at)},
                     {"silent", cluster->names_of(silent)},
                     {"nodes_wanted", state.spec.nodes},
                     {"refused", refusals(self, refused)}}));
  for (const NodeId& node : state.created_at) begin_at(self, node);
}

void tell_now(Self* self) {
  if (self->state.holders.empty()) return tell_started(self);
  tell_waits(self);
  self->quit();
}

void tell_when_settled(Self* self) {
  State& state = self->state;
  const std::size_t candidates = state.spec.candidates.size(), created = state.created_at.size();
  if (created + state.not_created.size() < candidates) return;
  if (created > candidates / 2) tell_started(self);
  if (!state.told) {
    if (!state.options.queued)
      for (const NodeId& node : state.spec.candidates) withdraw_from(self, node);
    end(self, error_json({ErrorCode::unavailable,
                          "too few candidates could store the job:" + reasons_why_not(self)}));
  }
  self->quit();
}

// That it is told of the refusals is good to have, no more.
void on_told(Self* self, const NodeId& node, const Result<SharedBytes>&) {
  State& state = self->state;
  state.created_at.push_back(node);
  if (state.told) begin_at(self, node);
  if (state.created_at.size() == state.spec.candidates.size() / 2 + 1)  // a quorum has it on disk
    self->delayed_send(self, kTellWithin, TellNow{});
  tell_when_settled(self);
}

void on_created(Self* self, const NodeId& node, const Result<SharedBytes>& answer) {
  State& state = self->state;
  // Who has finished it by now has created it: it was handed out before, by who is gone since.
  if (!answer && answer.error().code != ErrorCode::already_exists) {
    state.not_created.push_back({node, answer.error().detail});
    return tell_when_settled(self);
  }
  JobRefusals refusals{job::job_id(state.manifest), state.refused};
  call(self, node, "job.refused", SharedBytes::from(encode(refusals)), kCreateTimeout, on_told);
}

caf::behavior behaviour(Self* self, std::shared_ptr<SubmissionOptions> options) {
  self->state.options = std::move(*options);
  expect_known_messages(self);
  const auto& queued = self->state.options.queued;
  if (queued && !queued->accepted.empty())
    agree_on(self, queued->accepted);
  else
    ask_all(self);
  return {
      [self](const Answer& answer) { answer.then(self, answer.node, answer.answer); },
      [self](const TellNow&) { tell_now(self); },
      [self](const NoMore& wait) { on_no_more(self, wait.answers); },
      [self](const Agreed& agreed) {
        if (agreed.manifest && !view::decode_order(*agreed.manifest))
          return hand_out(self, *agreed.manifest);
        end(self, error_json(agreed.manifest ? Error{ErrorCode::cancelled, "it was taken out"}
                                             : agreed.manifest.error()));
        self->quit();
      },
  };
}

}  // namespace

Choice choose(const job::JobSpec& spec, std::vector<FitNode> fit, std::vector<Refusal> refused,
              const NodeId& self) {
  // The submitter first, so that a job of one node runs where it was started.
  std::sort(fit.begin(), fit.end(), [&](const FitNode& a, const FitNode& b) {
    return std::pair(a.node != self, a.node) < std::pair(b.node != self, b.node);
  });
  using Key = std::tuple<std::string, std::string, Bytes, std::string>;
  std::map<Key, std::vector<const FitNode*>> groups;
  for (const FitNode& node : fit)
    groups[{node.fitness.version, node.fitness.model_digest, node.fitness.data_digest,
            node.fitness.fingerprint}]
        .push_back(&node);
  const std::vector<const FitNode*>* best = nullptr;
  auto has_self = [&](const std::vector<const FitNode*>& group) {
    return std::any_of(group.begin(), group.end(),
                       [&](const FitNode* node) { return node->node == self; });
  };
  for (const auto& [key, group] : groups)
    if (!best || group.size() > best->size() ||
        (group.size() == best->size() && has_self(group) && !has_self(*best)))
      best = &group;
  std::ranges::sort(refused, {}, &Refusal::node);  // not as their answers came
  Choice choice{spec, std::move(refused)};
  if (best) {
    const Fitness& common = best->front()->fitness;
    for (const FitNode& node : fit) {
      if (auto differs = difference(node.fitness, common, spec))
        choice.refused.push_back({node.node, differs->detail});
      else if (choice.spec.candidates.size() < spec.nodes)
        choice.spec.candidates.push_back(node.node);
    }
    brought(choice.spec) = brought(common);
  }
  return choice;
}

Result<Choice> choose_candidates(const job::JobSpec& spec, std::vector<FitNode> fit,
                                 std::vector<Refusal> refused, const NodeId& self,
                                 const std::function<std::string(const NodeId&)>& name_of) {
  Choice choice = choose(spec, std::move(fit), std::move(refused), self);
  if (choice.spec.candidates.size() >= spec.min_nodes) return choice;
  std::string text = "the job needs at least " + std::to_string(spec.min_nodes) + " node" +
                     (spec.min_nodes == 1 ? "" : "s") + ", " +
                     std::to_string(choice.spec.candidates.size()) + " can take part";
  for (const Refusal& refusal : choice.refused)
    text += "; " + name_of(refusal.node) + ": " + refusal.reason;
  return Error{ErrorCode::invalid_argument, text};
}

void spawn_submission(caf::actor_system& system, SubmissionOptions options) {
  system.spawn(behaviour, std::make_shared<SubmissionOptions>(std::move(options)));
}

}  // namespace gpunode::jobs
