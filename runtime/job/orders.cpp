#include "runtime/job/orders.hpp"

#include <algorithm>

#include "runtime/job/detail/report_text.hpp"

namespace gpunode::job {

namespace {
// A step that does not end is no reason not to stop.
constexpr Duration kStepTimeout = std::chrono::seconds(20);
constexpr Duration kOrderedLately = std::chrono::seconds(3);

Error bad(std::string what) {
  return {ErrorCode::invalid_argument, std::move(what)};
}

// What the view of an order means for the job, for people.
std::string done_text(const view::SignedOrder& order, std::uint64_t base_step) {
  const std::string step = std::to_string(base_step);
  switch (order.kind) {
    case view::OrderKind::stop:
      return "the job stops after step " + step;
    case view::OrderKind::resume:
      return "the job goes on after step " + step;
    case view::OrderKind::resume_from:
    case view::OrderKind::recover:
      return "the job goes back to step " + step;
    case view::OrderKind::remove:
      break;
  }
  return "the job ends";
}
}  // namespace

Result<void> Orders::may_be_taken(const view::SignedOrder& order) const {
  if (Result<void> may = job_.may_order(order); !may) return may;
  const std::optional<view::SignedOrder>& done = job_.view().order;
  if (view::is_later(order, done) && view::is_later(order, order_)) return {};
  return Error{ErrorCode::wrong_state,
               "a later order was given already, by node " +
                   (view::is_later(order, done) ? order_ : done)->by.short_text() +
                   ": where that is not so, compare the clocks, and order it again"};
}

void Orders::take(const view::SignedOrder& order) {
  order_ = order;
  ordered_at_ = job_.now;
}

void Orders::on_view(const view::View& before, Actions& out) {
  const std::optional<view::SignedOrder>& done = job_.view().order;
  if (done && done != before.order)
    job_.report(done_text(*done, job_.view().base_step) + ", as node " + done->by.short_text() +
                    " has ordered",
                out);
  // Back at that step, or on from a newer one whose holder came in time: the job goes on.
  const bool over = wants(view::OrderKind::resume_from);
  if (over || (order_ && !view::is_later(*order_, job_.view().order))) order_.reset();
  stop_told_ = false;
}

void Orders::drop_if_void(Actions& out) {
  if (!order_) return;
  const Result<void> may = job_.may_order(*order_);
  if (may) return;
  job_.report("what was ordered of the job is dropped: " + may.error().detail, out);
  order_.reset();
}

std::optional<std::string> Orders::due(bool in_step) const {
  if (!order_) return std::nullopt;
  switch (order_->kind) {
    case view::OrderKind::resume_from:
      return "it was ordered back to the checkpoint of step " + std::to_string(order_->step);
    case view::OrderKind::resume:
      return "it was ordered to go on";
    case view::OrderKind::stop:
      if (in_step && job_.now < ordered_at_ + kStepTimeout) return std::nullopt;
      return "it was ordered to stop";
    case view::OrderKind::recover:
    case view::OrderKind::remove:
      break;  // are not taken
  }
  return std::nullopt;
}

Result<void> Orders::has_part() const {
  if (job_.finished || (job_.state_ready && job_.is_last_step()))
    return bad("the job has done its last step");
  if (job_.view().has_part(job_.self())) return {};
  std::string why = "this node has no part in the job's last view; ask one that has: " +
                    nodes_text(job_.everybody());
  if (may_recover(0))
    why +=
        "; if they are lost for good, `gpunode job recover --force` goes on from "
        "the checkpoint of step " +
        std::to_string(job_.checkpoint.step) + " on this node";
  return bad(std::move(why));
}

Result<void> Orders::may_recover(std::uint64_t durable) const {
  if (job_.view().is_witness(job_.self()) && job_.checkpoint.step < durable)
    return Error{ErrorCode::wrong_state,
                 "this node votes on the job, and has no copy of the checkpoint of step " +
                     std::to_string(durable) +
                     ", which was called durable: order it at a node that has, or give up what is "
                     "durable by `gpunode job recover --force --anew`"};
  if (job_.finished || job_.view().has_part(job_.self())) return has_part();
  for (const NodeId& node : job_.everybody())
    if (!job_.gone(node) && job_.heard_within(node, kOrderedLately))
      return bad("this node has no part in the job's last view; ask node " + node.short_text() +
                 ", which has one and answers");
  if (job_.view().view_id == 0 || job_.checkpoint.step > 0) return {};
  return bad(
      "this node has no part in the job's last view and no checkpoint of the job: nothing could be "
      "recovered from here");
}

void Orders::watch_lost_quorum(Time since, Actions& out) {
  if (!job_.options.goes_on_alone || !has_part()) return;
  if (!job_.member || !job_.state_ready) return;
  Duration wait = job_.options.timings.alone_after;
  for (const view::Member& one : job_.view().members) {
    if (one.node == job_.self()) break;
    if (!job_.gone(one.node)) wait += job_.options.timings.alone_turn;
  }
  if (job_.now < std::max(since, alone_told_) + wait) return;
  alone_told_ = job_.now;
  out.push_back(LostQuorum{});
}

void Orders::tell_stopped(Actions& out) {
  if (!job_.view().stopped || job_.agreement.frozen() || stop_told_ || !job_.member ||
      !job_.state_ready || !job_.is_applied() || job_.is_last_step())
    return;
  stop_told_ = true;
  const Progress& here = job_.progress;
  out.push_back(Stopped{here.committed(), here.state_digest(), here.running()});
}

}  // namespace gpunode::job
