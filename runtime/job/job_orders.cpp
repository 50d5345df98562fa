// What people order, and how the core carries it out: by a view change that its promise asks for, or
// for a recovery by a view that it forms without a quorum.
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

Result<void> JobCore::State::take_order(const view::SignedOrder& order, Actions& out) {
  if (Result<void> may = orders.may_be_taken(order); !may) return may;
  if (order.kind == view::OrderKind::recover) return recover(order, out);
  if (Result<void> part = orders.has_part(); !part) return part;
  const auto bad = [](std::string why) {
    return Error{ErrorCode::invalid_argument, std::move(why)};
  };
  switch (order.kind) {
    case view::OrderKind::stop:
      if (job.view().stopped) return {};
      break;
    case view::OrderKind::resume:
      if (!job.view().stopped) return bad("the job is not stopped: it goes on by itself");
      break;
    case view::OrderKind::resume_from:
      if (job.member && job.state_ready && !job.through)
        return bad("this node holds the state after step " +
                   std::to_string(job.progress.committed()) +
                   ": nothing is lost that the job would have to go back for");
      job.report("the job is to go back to the checkpoint of step " + std::to_string(order.step) +
                     ", whatever was reported durable",
                 out);
      break;
    case view::OrderKind::recover:
    case view::OrderKind::remove:
      return bad("not an order about a job that runs");
  }
  orders.take(order);
  if (order.kind == view::OrderKind::resume_from)
    job.agreement.want_change(job.now);
  else
    watch_orders(out);
  return {};
}

Result<void> JobCore::State::recover(const view::SignedOrder& order, Actions& out) {
  const std::uint64_t durable = order.anew ? 0 : durability.floor().name.step;
  if (Result<void> may = orders.may_recover(durable); !may) return may;
  job.report("the job is recovered by force: whoever answers goes on as generation " +
                 std::to_string(job.view().generation() + 1),
             out);
  split(order, out);
  return {};
}

// Starts the view change that an order wants.
void JobCore::State::watch_orders(Actions& out) {
  orders.drop_if_void(out);
  if (job.is_changing()) return;
  if (const auto why = orders.due(job.can_exchange() && steps.under_way())) change_view(*why, out);
}

// Those of the promises that whoever signed may not give are as if they were not there.
bool JobCore::State::counts(const view::SignedOrder& order) const {
  return !view::is_later(order, job.view().order) || job.may_order(order).has_value();
}

}  // namespace gpunode::job
