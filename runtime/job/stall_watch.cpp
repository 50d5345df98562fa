#include "runtime/job/stall_watch.hpp"

#include <algorithm>

#include "runtime/job/detail/report_text.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kLeastStall = std::chrono::milliseconds(500);
constexpr int kUnusual = 4;  // times the usual step
}  // namespace

std::string_view to_string(collective::Lack lack) {
  switch (lack) {
    case collective::Lack::nothing:
      return "nothing";
    case collective::Lack::partial_sums:
      return "partial sums";
    case collective::Lack::results:
      return "results";
    case collective::Lack::confirmation:
      return "confirmation";
  }
  return "unknown";
}

// The peer that keeps the step waiting, if it does so for unusually long: who owes partial sums
// before who owes results, which follow from them; then the one that was heard least recently.
std::optional<Stall> StallWatch::longest_wait(const std::optional<collective::AllReduce>& exchange,
                                              Time began) const {
  if (!exchange || !job_.can_exchange()) return std::nullopt;
  std::optional<Stall> longest;
  for (const std::uint16_t rank : exchange->waiting_for()) {
    const NodeId& node = job_.view().members[rank].node;
    const Time heard = job_.peers.heard(node);
    const Stall wait{node, exchange->lack_of(rank), job_.now - std::max(heard, began)};
    const bool worse = !longest || wait.lack < longest->lack ||
                       (wait.lack == longest->lack && wait.lasts > longest->lasts);
    if (worse) longest = wait;
  }
  if (!longest || longest->lasts < std::max(kLeastStall, kUnusual * usual_step_))
    return std::nullopt;
  return longest;
}

std::optional<Stall> StallWatch::stall(const std::optional<collective::AllReduce>& exchange,
                                       Time began) const {
  std::optional<Stall> longest = longest_wait(exchange, began);
  if (!longest && told_) longest = Stall{told_->node, told_->lack, job_.now - since_};
  return longest;
}

void StallWatch::on_tick(const std::optional<collective::AllReduce>& exchange, Time began,
                         Actions& out) {
  if (told_) return;
  told_ = longest_wait(exchange, began);
  if (!told_) return;
  since_ = job_.now - told_->lasts;
  job_.report("step " + std::to_string(job_.progress.committed() + 1) + " waits for node " +
                  told_->node.short_text() + ": no " + std::string(to_string(told_->lack)) +
                  " of it for " + seconds_text(told_->lasts) + "; asked for it again",
              out);
}

void StallWatch::end(const std::string& how, Actions& out) {
  if (!told_) return;
  const Duration lasted = job_.now - since_;
  out.push_back(Report{"the wait for node " + told_->node.short_text() + " ended after " +
                           seconds_text(lasted) + ": " + how,
                       lasted});
  told_.reset();
}

void StallWatch::on_commit(Actions& out) {
  if (last_commit_) {
    const Duration took = job_.now - *last_commit_;
    usual_step_ = usual_step_ == Duration{} ? took : usual_step_ + (took - usual_step_) / 8;
  }
  last_commit_ = job_.now;
  end("it came", out);
}

void StallWatch::on_view(Actions& out) {
  end("view " + std::to_string(job_.view().view_id) + " takes its place", out);
  last_commit_.reset();
}

}  // namespace gpunode::job
