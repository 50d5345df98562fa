// What a person orders of a job: stop, resume, resume from a step, recover by force. The core
// carries an order out with its next view; the answer waits for that, or says what it still waits
// for.
#include <algorithm>
#include <utility>

#include "actors/job/detail/job_actor_state.hpp"
#include "actors/job/job_line.hpp"
#include "actors/json_answer.hpp"

namespace gpunode::jobs {

bool is_order(const std::string& command) {
  return command == "job.stop" || command == "job.resume" || command == "job.recover";
}

std::optional<std::uint64_t> resumed_from(const std::string& command,
                                          const nlohmann::json& arguments) {
  if (command != "job.resume" || !arguments.contains("from")) return std::nullopt;
  return field<std::uint64_t>(arguments, "from", 0);
}

std::optional<view::SignedOrder> order_in(const nlohmann::json& arguments) {
  const auto order = view::decode_order(from_hex(field<std::string>(arguments, "order", "")));
  return order ? std::optional(*order) : std::nullopt;
}

namespace actor {

namespace {

constexpr auto kTimeout = std::chrono::seconds(30);

std::optional<std::uint64_t> resumes_from(const Command& command) {
  return resumed_from(command.name, arguments_of(command.arguments));
}

// A hung trainer gives no state to a checkpoint.
std::string stopped_in_memory(const job::JobStatus& status) {
  return "stopped after step " + std::to_string(status.committed) +
         ", whose state is in this node's memory alone: " + status.hang->text();
}

Error not_yet(Self* self, const Order& order, const job::JobStatus& status) {
  auto cluster = self->state.options.cluster->read();
  const std::string who = cluster->list_of(status.waiting_for);
  std::string text = "not yet: ";
  if (status.stopped && status.hang)
    text += stopped_in_memory(status);
  else if (!status.reason.empty())
    text += status.reason;
  else if (status.stopped)
    text += "stopped after step " + std::to_string(status.committed) +
            "; its checkpoint is on its way to this node's disk";
  else
    text += "step " + std::to_string(status.committed + 1) + " is under way";
  if (!who.empty()) text += " (waiting for " + who + ")";
  text += order.command.name == "job.recover"
              ? "; order it again"
              : "; the order stands, `gpunode job show` tells when it is carried out";
  return {ErrorCode::unavailable, text};
}

// Whether the order is carried out: the view says so, and a stop's last checkpoint is through here
// and its step may be told.
bool is_done(const State& state, const Order& order, const job::JobStatus& status) {
  if (order.command.name == "job.recover") return status.generation > order.generation;
  if (resumes_from(order.command)) return state.core->view().history() != order.history;
  if (order.command.name == "job.resume") return !status.stopped;
  return status.stop_told && status.phase != job::Phase::frozen &&
         status.reported >= status.committed && state.checkpoints_wanted.empty() &&
         state.checkpoints_writing == 0;
}

bool is_kept(const State& state, std::uint64_t step) {
  return step == 0 || state.options.core.checkpoint.step == step ||
         state.ledger.seen().checkpoint_step == step;
}

// Why the checkpoint of a stop that is carried out is not on this node's disk, if it should be.
Result<void> kept_as_promised(const State& state, const Order& order,
                              const job::JobStatus& status) {
  const bool stops = order.command.name == "job.stop" && status.phase == job::Phase::stopped;
  if (!stops || is_kept(state, status.committed)) return {};
  const std::string at = "the job is stopped after step " + std::to_string(status.committed) +
                         ", but its state is only in this node's memory";
  if (!state.checkpoint_failed)
    return Error{ErrorCode::internal, at + ": look at `gpunode job log`"};
  return state.checkpoint_failed->within(at);
}

std::string done_json(Self* self, const job::JobStatus& status) {
  State& state = self->state;
  auto cluster = state.options.cluster->read();
  return ok_json(
      {{"job", state.options.id.text()},
       {"name", state.options.spec.name},
       {"phase", to_string(status.stopped ? JobPhase::stopped : state.phase)},
       {"step", status.reported},
       {"view", status.view_id},
       {"base_step", state.core->view().base_step},
       {"generation", status.generation},
       {"members", cluster->names_of(status.members)},
       // Of an earlier life of this node, where no step was made since.
       {"checkpoint_step",
        is_kept(state, status.reported) ? status.reported : state.ledger.seen().checkpoint_step}});
}

// Steps are made, as far as this node knows: who only votes hears it from a member.
bool makes_steps(const State& state, const job::JobStatus& status, const ClusterSnapshot& cluster) {
  if (status.stopped || status.stall) return false;
  if (status.phase != job::Phase::witness) return status.phase == job::Phase::running;
  return std::ranges::any_of(hints_of(cluster, state.options.id), [&](const HeardHint& heard) {
    return cluster.alive(heard.from) && heard.hint.phase == JobPhase::running &&
           std::ranges::find(status.members, heard.from) != status.members.end();
  });
}

Error over_already(const State& state) {
  return {ErrorCode::wrong_state, "the job is " + std::string(to_string(state.phase)) +
                                      (state.reason.empty() ? "" : ": " + state.reason)};
}

// Why a recovery is not what is wanted: steps are made and every node that votes is up.
Result<void> may_be_recovered(Self* self) {
  const State& state = self->state;
  const job::JobStatus status = state.core->status(now(self));
  const auto cluster = state.options.cluster->read();
  const auto answers = [&](const NodeId& node) {
    return node == state.options.core.self.node || cluster->alive(node);
  };
  if (makes_steps(state, status, *cluster) &&
      std::ranges::all_of(state.core->view().acceptors, answers) &&
      std::ranges::all_of(status.members, answers))
    return Error{ErrorCode::wrong_state, "job '" + state.options.spec.name +
                                             "' runs, and every node that votes on it is up: there "
                                             "is nothing to recover"};
  return {};
}

}  // namespace

void take_order(Self* self, const Command& command) {
  State& state = self->state;
  if (!state.core) {  // it is being prepared, or has failed
    Order order;
    order.command = command;
    order.since = now(self);
    order.early = true;
    state.orders.push_back(std::move(order));
    return watch_orders(self);
  }
  const auto refuse = [&](const Error& error) {
    command.answer(error_json({error.code, said(self, error.detail)}));
  };
  if (command.name == "job.recover")
    if (Result<void> may = may_be_recovered(self); !may) return refuse(may.error());
  Order order{command, now(self), state.core->status(now(self)).generation,
              state.core->view().history()};
  const auto signed_order = order_in(arguments_of(command.arguments));
  if (!signed_order) return refuse({ErrorCode::permission_denied, "it is not signed"});
  Result<void> taken;
  feed(self, [&](job::JobCore& core, Time t, job::Actions& out) {
    taken = core.take_order(t, *signed_order, out);
  });
  if (!taken) return refuse(taken.error());
  state.orders.push_back(std::move(order));
  watch_orders(self);
}

void go_on_alone(Self* self) {
  feed(self, &job::JobCore::go_on_alone);
}

// Orders of before there was a core are taken once there is one.
void watch_early_orders(Self* self) {
  State& state = self->state;
  for (const Order& order : std::exchange(state.orders, {})) {
    if (order.early && state.core)
      take_order(self, order.command);
    else if (order.early && !is_over(state.phase) && now(self) >= order.since + kTimeout)
      order.command.answer(error_json({ErrorCode::unavailable,
                                       "the job is being prepared on this node; order it again "
                                       "when `gpunode job show` tells that it has begun"}));
    else
      state.orders.push_back(order);
  }
}

void watch_orders(Self* self) {
  State& state = self->state;
  watch_early_orders(self);
  if (state.orders.empty()) return;
  if (is_over(state.phase)) {
    for (const Order& order : state.orders) order.command.answer(error_json(over_already(state)));
    return state.orders.clear();
  }
  if (!state.core) return;
  const job::JobStatus status = state.core->status(now(self));
  std::erase_if(state.orders, [&](const Order& order) {
    if (is_done(state, order, status)) {
      const Result<void> kept = kept_as_promised(state, order, status);
      order.command.answer(kept ? done_json(self, status) : error_json(kept.error()));
      return true;
    }
    if (now(self) < order.since + kTimeout) return false;
    order.command.answer(error_json(not_yet(self, order, status)));
    return true;
  });
}

void on_stopped(Self* self, const job::Stopped& stopped) {
  State& state = self->state;
  if (const job::JobStatus status = state.core->status(now(self)); status.hang)
    warn(self, stopped_in_memory(status));
  else
    note(self, "stopped after step " + std::to_string(stopped.step) +
                   "; `gpunode job resume` goes on from there");
  if (is_kept(state, stopped.step)) return;
  want_checkpoint(self, stopped.step, stopped.running, stopped.state);
}

}  // namespace actor
}  // namespace gpunode::jobs
