// The order to remove a job: first all nodes are asked what they do with it, then all that answer remove
// it, or none does.
#include <caf/send.hpp>

#include <algorithm>

#include "actors/job/detail/job_board_state.hpp"
#include "actors/job/job_line.hpp"
#include "actors/json_answer.hpp"

namespace gpunode::jobs::board {

namespace {

constexpr auto kRemoveTimeout = std::chrono::seconds(20);
constexpr auto kAskTimeout = std::chrono::seconds(5);  // it is answered at once

// Whether what a node does with the job keeps it from being removed: steps are made, or may be.
// `over`: it is known to be finished, so that who is not as far only waits for the result.
bool stands_in_the_way(JobPhase phase, bool force, bool over) {
  switch (phase) {
    case JobPhase::running:
    case JobPhase::validating:
    case JobPhase::saving:
      return !over;
    case JobPhase::preparing:
    case JobPhase::forming:
    case JobPhase::learning:
    case JobPhase::syncing:
    case JobPhase::paused:
      return !over && !force;
    default:
      return false;
  }
}

struct Removal {
  Command command;
  NamedJob job;
  std::string shown;
  view::SignedOrder order = {};
  bool force = false;
  std::set<NodeId> parts =
      {};  // who takes part in it by a manifest that has its id; empty: none came
  std::map<NodeId, JobPhase> phases = {};  // as nodes tell, and answer where they are asked
  std::vector<NodeId> nodes = {};          // that answer
  std::size_t answers = 0;                 // to the question that they were asked last
  nlohmann::json removed_on = nlohmann::json::array(), missing = nlohmann::json::array();
};
using OnAnswer = void (*)(Self*, const std::shared_ptr<Removal>&, const NodeId&,
                          const Result<SharedBytes>&);

// Whether the job is known to be finished: those say so that may know, and none of them makes steps.
bool is_over(Self* self, const Removal& removal) {
  const Job* own = job_at(self, removal.job.id);
  if (own && own->progress.phase == JobPhase::finished) return true;
  const auto may_know = [&](const NodeId& node) {
    return removal.parts.empty() || removal.parts.contains(node);
  };
  const auto last = self->state.last_hints.newest(removal.job.id);
  if (last && last->hint.phase == JobPhase::finished && may_know(last->by)) return true;
  bool over = false;
  for (const auto& [node, phase] : removal.phases) {
    if (!may_know(node)) continue;
    if (is_made(phase)) return false;
    over |= phase == JobPhase::finished;
  }
  return over;
}

Error still_at_work(const Removal& removal, JobPhase phase, const std::string& where,
                    bool forcible) {
  return {ErrorCode::wrong_state,
          "job " + removal.shown + " is not over: it is " + std::string(to_string(phase)) + " " +
              where + "; `gpunode job stop " + removal.shown + "` first, then remove it" +
              (forcible ? ", or remove it with --force nevertheless" : "")};
}

// Why the job stays, if it does. Anybody can say that it makes steps of a job; the word of one that has
// no part in it as far as is known here, which may have joined late, --force overrules.
std::optional<Error> objection(Self* self, const Removal& removal) {
  const auto cluster = self->state.options.cluster->read();
  const bool over = is_over(self, removal);
  std::optional<Error> found;
  for (const auto& [node, phase] : removal.phases) {
    const bool part = removal.parts.contains(node);
    const bool forcible = !part || !stands_in_the_way(phase, true, over);
    if (!stands_in_the_way(phase, removal.force, over) || (removal.force && forcible)) continue;
    if (found && !part) continue;
    found =
        still_at_work(removal, phase,
                      "on node " + cluster->name_of(node) +
                          (part ? "" : ", of which no other node says that it has a part in it"),
                      forcible);
    if (part) break;
  }
  return found;
}

// Takes a manifest for what it says of who takes part, if it is the job's.
void take_parts(Removal& removal, ByteView manifest) {
  if (job::job_id(manifest) != removal.job.id) return;
  const auto spec = job::decode(manifest);
  if (!spec) return;
  removal.parts.insert(spec->candidates.begin(), spec->candidates.end());
  removal.parts.insert(spec->submitter);
}

void ask_all(Self* self, const std::shared_ptr<Removal>& removal, const char* question,
             const SharedBytes& request, Duration timeout, OnAnswer then) {
  removal->answers = 0;
  for (const NodeId& node : removal->nodes)
    self->send(self->state.options.calls,
               CallRequest{node, question, request, timeout,
                           [=, me = caf::actor(self)](const auto& answer) {
                             caf::anon_send(me,
                                            Request{[=] { then(self, removal, node, answer); }});
                           }});
}

// Where no node had the manifest, those that have told of the job before.
std::set<NodeId> known_parts(Self* self, const Removal& removal) {
  const auto last = self->state.last_hints.newest(removal.job.id);
  return removal.parts.empty() && last ? last->tellers : removal.parts;
}

void on_removed(Self* self, const std::shared_ptr<Removal>& removal, const NodeId& node,
                const Result<SharedBytes>& answer) {
  const std::string name = self->state.options.cluster->read()->name_of(node);
  if (answer)
    removal->removed_on.push_back(name);
  else if (answer.error().code != ErrorCode::not_found)
    removal->missing.push_back({{"node", name}, {"reason", answer.error().detail}});
  if (++removal->answers < removal->nodes.size()) return;
  if (!removal->missing.empty())
    if (auto stored = remember_for_others(self, removal->job.id, removal->job.name, removal->order,
                                          known_parts(self, *removal));
        !stored)
      removal->missing.push_back({{"node", "the nodes that are away"},
                                  {"reason", "they are not told of it: " + stored.error().detail}});
  note_in_audit(self, "job_removed",
                {{"job", removal->job.id.text()},
                 {"name", removal->job.name},
                 {"by", removal->order.by.text()},
                 {"forced", removal->force ? "yes" : "no"}});
  removal->command.answer(ok_json({{"job", removal->job.id.text()},
                                   {"name", removal->job.name},
                                   {"removed_on", removal->removed_on},
                                   {"missing", removal->missing}}));
}

void on_asked(Self* self, const std::shared_ptr<Removal>& removal, const NodeId& node,
              const Result<SharedBytes>& answer) {
  const std::string name = self->state.options.cluster->read()->name_of(node);
  ++removal->answers;
  if (answer) {
    const std::string_view text = as_text(answer->view);
    const std::size_t line = std::min(text.find('\n'), text.size());
    if (const auto phase = parse_job_phase(std::string(text.substr(0, line))))
      removal->phases[node] = *phase;
    take_parts(*removal, answer->view.subspan(std::min(line + 1, text.size())));
  } else if (answer.error().code == ErrorCode::not_found) {
    removal->phases.erase(node);
  } else {
    removal->missing.push_back({{"node", name}, {"reason", answer.error().detail}});
    std::erase(removal->nodes, node);
    --removal->answers;
  }
  if (removal->answers < removal->nodes.size()) return;
  if (removal->nodes.empty())
    return removal->command.answer(error_json(
        {ErrorCode::unavailable, "job '" + removal->job.name + "' is not removed: " +
                                     removal->missing[0].value("reason", "nobody answers")}));
  if (const auto stays = objection(self, *removal))
    return removal->command.answer(error_json(*stays));
  ask_all(self, removal, "job.remove", SharedBytes::from(view::encode(removal->order)),
          kRemoveTimeout, on_removed);
}

// Each node that has it looks for itself; who may not is told so before any is asked. Of one that is not
// here others say whose it is.
Result<void> may_remove(Self* self, const Removal& removal, const std::vector<HeardHint>& hints) {
  std::vector<NodeId> owners;
  if (const Job* own = job_at(self, removal.job.id)) {
    owners = {own->spec.submitter};
  } else {
    for (const HeardHint& heard : hints) owners.push_back(heard.hint.submitter);
    if (const auto last = self->state.last_hints.newest(removal.job.id))
      owners.push_back(last->hint.submitter);
  }
  if (owners.empty()) owners.emplace_back();
  const auto cluster = self->state.options.cluster->read();
  Result<void> may;
  for (const NodeId& owner : owners) {
    may = may_order(*self->state.options.authority, *cluster, removal.job.name, owner,
                    removal.order.by);
    if (may) break;
  }
  return may;
}

// What is known before any node is asked.
void take_what_is_told(Self* self, Removal& removal, const std::vector<HeardHint>& hints) {
  const auto cluster = self->state.options.cluster->read();
  if (const Job* own = job_at(self, removal.job.id)) removal.parts = parts_of(*own);
  for (const HeardHint& heard : hints)
    if (cluster->alive(heard.from) && (!heard.hint.ended || heard.hint.phase == JobPhase::finished))
      removal.phases[heard.from] = heard.hint.phase;
  for (const NodeInfo& node : cluster->nodes) {
    if (cluster->alive(node.id))
      removal.nodes.push_back(node.id);
    else
      removal.missing.push_back(
          {{"node", node.name},
           {"reason", node.health == PeerHealth::left
                          ? "it has left; if it has the job, it removes it when it is back"
                          : "it does not answer, and removes it when it is back"}});
  }
}

}  // namespace

void remove_job(Self* self, const Command& command) {
  const nlohmann::json arguments = arguments_of(command.arguments);
  const JobNames names = names_of(self);
  const auto meant = names.meant(field<std::string>(arguments, "job", ""), Purpose::remove);
  if (!meant) return command.answer(error_json(meant.error()));
  auto removal = std::make_shared<Removal>(Removal{command, *meant, names.shown(meant->id)});
  const auto cluster = self->state.options.cluster->read();
  const std::vector<HeardHint> hints = hints_of(*cluster, meant->id);
  const Job* own = job_at(self, meant->id);
  const security::Authority& authority = *self->state.options.authority;
  const auto order = order_in(arguments);  // of the node that has handed this on
  removal->order =
      order ? *order
            : signed_order(authority, {.job = meant->id, .kind = view::OrderKind::remove},
                           self->state.options.environment->options().clock->wall());
  if (auto may = may_remove(self, *removal, hints); !may)
    return command.answer(error_json(may.error()));
  removal->force = field<bool>(arguments, "force", false);
  take_what_is_told(self, *removal, hints);
  // Whom nobody reaches from here may make steps of it still.
  if (const auto last = self->state.last_hints.newest(meant->id);
      last && !cluster->alive(last->by) && !removal->force && !last->hint.ended &&
      !is_over(self, *removal) && stands_in_the_way(last->hint.phase, false, false))
    return command.answer(error_json(still_at_work(
        *removal, last->hint.phase, "by the last word of nodes that do not answer", true)));
  const auto ask = [self, removal] {
    const auto id = SharedBytes::from(to_bytes(as_bytes(removal->job.id.text())));
    ask_all(self, removal, "job.phase", id, kAskTimeout, on_asked);
  };
  if (own && own->waiting && !removal->force)
    return take_out(self, removal->order, [command, removal, ask](const Result<void>& out) {
      if (out) return ask();
      command.answer(error_json(out.error().within("job " + removal->shown)));
    });
  const HeardHint* holder = nullptr;  // the owner, where it is one
  for (const HeardHint& heard : hints)
    if (heard.hint.phase == JobPhase::waiting && cluster->alive(heard.from) &&
        (!holder || heard.from == heard.hint.submitter))
      holder = &heard;
  if (own || !holder) return ask();
  Command forwarded = command;  // what was meant is decided here
  forwarded.arguments = text_of({{"job", meant->id.text()},
                                 {"force", removal->force},
                                 {"order", to_hex(view::encode(removal->order))}});
  forward(self, forwarded, holder->from, meant->id);
}

}  // namespace gpunode::jobs::board
