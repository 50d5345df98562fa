// What this node keeps of the job's history over restarts, and what members tell each other of it: a
// member that comes in later, or was away, asks another one for the steps that it has not seen.
#include <algorithm>
#include <utility>

#include "actors/job/detail/job_actor_state.hpp"
#include "actors/job/job_history_codec.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::jobs::actor {
namespace {

// Of a small job what was committed while its lease held, as others may undo the rest, or what a
// checkpoint is made of.
std::uint64_t told_up_to(const State& state) {
  const std::uint64_t newest = state.ledger.history().newest().step;
  if (!state.core || !state.ledger.is_current()) return newest;
  const job::JobStatus status = state.core->status(state.options.clock->now());
  return status.needs_lease ? std::max(status.reported, state.checkpoint_asked) : newest;
}

void send_on(Self* self, std::vector<WriteCheckpoint> orders) {
  for (WriteCheckpoint& one : orders) self->send(self->state.checkpoints, std::move(one));
}

Bytes history_bytes(Self* self) {
  State& state = self->state;
  state.ledger.look(*state.options.clock);
  return encode_history(state.ledger.history(), told_up_to(state), state.ledger.times(),
                        state.options.core.self.node);
}

void ask_for_history(Self* self) {
  State& state = self->state;
  if (!state.core || state.ledger.history().first() <= 1) return;
  std::vector<NodeId> others;
  for (const view::Member& one : state.core->view().members)
    if (one.node != state.options.core.self.node) others.push_back(one.node);
  if (const auto next = state.keeping.asks(now(self), state.ledger.history().first(), others))
    self->send(state.options.supervisor, AskHistory{state.options.id, *next});
}

}  // namespace

void restore_history(Self* self) {
  State& state = self->state;
  state.ledger.look(*state.options.clock);
  if (state.options.history.empty()) return;
  auto history = decode_history(std::exchange(state.options.history, {}), state.ledger.times(),
                                state.options.core.self.node);
  if (history)
    state.ledger.restore(std::move(*history));
  else
    warn(self,
         "what this node kept of the job's history cannot be read: " + history.error().message());
}

void keep_history(Self* self, bool ends) {
  State& state = self->state;
  if (!state.options.store_history) return send_on(self, state.keeping.take_checkpoints(true));
  if (!ends) ask_for_history(self);
  if (state.keeping.begins_to_write(now(self), ends))
    state.options.store_history(self, history_bytes(self));
  if (ends) send_on(self, state.keeping.take_checkpoints(true));
}

void on_history_written(Self* self, const HistoryWritten& written) {
  State& state = self->state;
  if (state.keeping.on_written(now(self), written.stored.has_value()))
    log::warning("job", state.options.spec.name + ": its history is not on this node's disk: " +
                            written.stored.error().message() + "; it is written again later");
  send_on(self, state.keeping.take_checkpoints());
  keep_history(self);
}

void tell_history(Self* self, const TellHistory& wanted) {
  wanted.reply(SharedBytes::from(history_bytes(self)));
}

void take_history(Self* self, const HistoryTold& told) {
  State& state = self->state;
  state.keeping.on_answer();
  if (!told.history) return;  // the next one is asked
  const auto history =
      decode_history(told.history->view, state.ledger.times(), state.options.core.self.node);
  if (history && state.ledger.take(*history)) state.keeping.on_change();
}

void on_base(Self* self, const job::ViewInstalled& installed) {
  State& state = self->state;
  if (is_over(state.phase)) return;
  std::uint64_t base = installed.view.base_step;
  // A member may be through with more than that.
  if (installed.role == job::Role::member) base = std::max(base, state.core->committed());
  state.ledger.undo_to(base);
}

}  // namespace gpunode::jobs::actor
