#include "runtime/job/ending.hpp"

#include <algorithm>

#include "runtime/base/broken_rule.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kTellFor = std::chrono::seconds(10);        // those who do not answer
constexpr Duration kNoResult = std::chrono::seconds(60);       // without a byte of it
constexpr Duration kServeLaggards = std::chrono::seconds(60);  // with sums, after the last step
}  // namespace

// A member that holds the view's state goes on, it needs nobody for that; one that lacks it takes
// the result instead. So does who is outside, if a member gives it, or if its own view's members
// may have died since. Of a history that its view has not come from, who holds the state believes
// only those that once had a part in its own: any node could say so.
bool Ending::takes(const NodeId& from, const HistoryId& history, const StepStatus& status) const {
  if (!status.finished || status.result == Digest{} || job_.finished) return false;
  const view::View& view = job_.view();
  if (history != view.history())
    return !job_.state_ready || view.descends_from(history, 0) || job_.peers.had_part(from);
  if (job_.is_last_step() && job_.is_of_history()) return false;
  if (!job_.member) {
    const bool nobody_left =
        std::all_of(view.members.begin(), view.members.end(),
                    [this](const view::Member& one) { return job_.gone(one.node); });
    return view.rank_of(from) || job_.wants_in || nobody_left;
  }
  if (job_.state_ready) return false;
  const auto& sources = view.sync_sources;  // which give the very state that the view begins with
  return view.base_step < job_.options.total_steps ||
         std::find(sources.begin(), sources.end(), from) == sources.end();
}

Ending::Heard Ending::on_status(const NodeId& from, const HistoryId& history,
                                const StepStatus& status, Actions& out) {
  if (status.committed < job_.options.total_steps) return Heard::nothing;
  if (takes(from, history, status)) return fetch_from(from, history, status, out);
  if (history != job_.view().history() || !job_.view().rank_of(from)) return Heard::nothing;
  const bool news = through_.insert(from).second;
  // Who still tells does not know yet that we are through.
  if (!news && !status.finished && job_.finished && job_.member && job_.is_last_step())
    job_.send(from, this->status(0), out);
  if (!job_.member && !job_.finished && status.finished && job_.is_last_step() &&
      job_.is_applied() && job_.is_of_history())
    finish("the job is finished, and its result is here", out);
  return Heard::member_is;
}

Ending::Heard Ending::fetch_from(const NodeId& from, const HistoryId& history,
                                 const StepStatus& status, Actions& out) {
  const bool one_history = history == job_.view().history();
  const std::string what =
      one_history ? "the job is finished" : "another part of the job has finished it";
  if (job_.is_last_step() && job_.is_applied() && job_.is_of_history()) {
    finish(what + ", and its result is here", out);
    return Heard::is_through;
  }
  if (!job_.wants_in || broken("ends_without_result")) {
    finish(what + "; this node was not a member at its end", out);
    return Heard::is_through;
  }
  if (fetched_ || (job_.takes_result && !fetch_)) return Heard::nothing;   // it is being loaded
  if (fetch_ && fetch_->digest() != status.result) return Heard::nothing;  // one after the other
  if (!sources_.insert(from).second) return Heard::nothing;
  if (fetch_) {
    fetch_->set_sources({sources_.begin(), sources_.end()});
    return Heard::nothing;
  }
  fetch_.emplace(job_.fetch_of(job_.options.total_steps, status.result, {from}));
  fetch_history_ = history;
  job_.takes_result = true;
  job_.report(what + "; this node was not a member at its end and fetches the result", out);
  return Heard::fetches;
}

void Ending::on_message(const NodeId& from, const JobBody& body, Actions& out) {
  if (!fetch_) return;
  StateFetch::Effects effects;
  fetch_->on_message(job_.now, from, body, effects);
  carry_out(effects, out);
}

void Ending::carry_out(StateFetch::Effects& effects, Actions& out) {
  job_.pass_on(effects, out);
  if (!effects.complete) return;
  fetched_ = FetchedState{*fetch_->meta(), std::move(*effects.complete), fetch_history_};
  fetch_.reset();
}

std::optional<FetchedState> Ending::take() {
  return std::exchange(fetched_, std::nullopt);
}

void Ending::drop_result() {
  sources_.clear();
  fetch_.reset();
  fetched_.reset();
  job_.takes_result = false;
}

bool Ending::on_tick(Actions& out) {
  if (!fetch_) return true;
  if (std::erase_if(sources_, [this](const NodeId& node) { return job_.gone(node); }) > 0)
    fetch_->set_sources({sources_.begin(), sources_.end()});
  if (sources_.empty()) return give_up("is gone", out);
  if (job_.now >= fetch_->progressed() + kNoResult) return give_up("gives nothing of it", out);
  StateFetch::Effects effects;
  fetch_->on_tick(job_.now, effects);
  carry_out(effects, out);
  return true;
}

// Nothing is lost: it is fetched as soon as somebody that has it tells so.
bool Ending::give_up(const char* why, Actions& out) {
  drop_result();
  job_.report("the job is finished, but whoever has its result " + std::string(why) +
                  ": this node waits for it",
              out);
  return false;
}

void Ending::on_installed(Actions& out) {
  if (!job_.takes_result || !job_.is_last_step()) return;
  finish("the job is finished, and its result is here", out);
}

void Ending::on_reconnected(const NodeId& node) {
  if (fetch_) fetch_->lose(node);
}

void Ending::on_history() {
  drop_result();
  through_.clear();
}

void Ending::finish(std::string how, Actions& out) {
  drop_result();
  job_.finished = job_.through = true;
  job_.wants_in = false;
  job_.report(std::move(how), out);
  out.push_back(Finished{});
}

StepStatus Ending::status(std::uint64_t results_from) const {
  const bool result = job_.holds_result();
  const bool ready = job_.state_ready || result;
  return {job_.progress.committed(), ready, job_.finished, ready ? results_from : 0,
          result ? job_.progress.state_digest() : Digest{}};
}

void Ending::tell(bool may, Actions& out) {
  if (!may || job_.finished || !job_.is_last_step() || !job_.is_applied()) return;
  const auto& members = job_.view().members;
  const bool all = std::all_of(members.begin(), members.end(), [this](const view::Member& one) {
    return one.node == job_.self() || through_.contains(one.node) || job_.gone(one.node);
  });
  job_.finished = all || job_.now >= done_at_ + kTellFor;
  if (job_.finished || job_.now >= told_ + job_.options.timings.linger_status) {
    told_ = job_.now;
    job_.send_all(status(0), out);
  }
  if (job_.finished) out.push_back(Finished{});
}

bool Ending::releases() {
  if (!job_.finished || released_) return false;
  const auto& members = job_.view().members;
  const bool all_through =
      std::all_of(members.begin(), members.end(), [this](const view::Member& one) {
        return one.node == job_.self() || through_.contains(one.node);
      });
  if ((!all_through || joiners_.anyone_asks()) && job_.now < done_at_ + kServeLaggards)
    return false;
  released_ = true;
  return true;
}

}  // namespace gpunode::job
