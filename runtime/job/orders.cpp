#include "runtime/job/orders.hpp"

#include <algorithm>

#include "runtime/job/detail/report_text.hpp"

namespace gpunode::job {

namespace {
// A step that does not end is no reason not to stop.
constexpr Duration kStepTimeout = std::chrono::seconds(20);
constexpr Duration kHeardLately = std::chrono::seconds(3);

Error bad(std::string what) {
  return {ErrorCode::invalid_argument, std::move(what)};
}
}  // namespace

void Orders::take(view::Wish wish, std::uint64_t step) {
  wish_ = wish;
  resume_from_ = step;
  wished_at_ = job_.now;
}

void Orders::on_view() {
  const bool stopped = job_.view().stopped;
  const bool done = stopped ? wish_ == view::Wish::stop : wish_ == view::Wish::resume;
  // Back at that step, or on from a newer one whose holder came in time: the job goes on.
  if (done || wish_ == view::Wish::resume_from) wish_ = view::Wish::none;
  stop_told_ = false;
}

std::optional<std::string> Orders::due(bool in_step) const {
  switch (wish_) {
    case view::Wish::none:
      return std::nullopt;
    case view::Wish::resume_from:
      return "it was ordered back to the checkpoint of step " + std::to_string(resume_from_);
    case view::Wish::resume:
      return "it was ordered to go on";
    case view::Wish::stop:
      break;
  }
  if (in_step && job_.now < wished_at_ + kStepTimeout) return std::nullopt;
  return "it was ordered to stop";
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
    if (!job_.gone(node) && job_.heard_within(node, kHeardLately))
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
