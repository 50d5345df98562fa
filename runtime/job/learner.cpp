#include "runtime/job/learner.hpp"

#include <algorithm>
#include <utility>

namespace gpunode::job {

namespace {
constexpr Duration kSourceHeardLately = std::chrono::milliseconds(1000);
constexpr Duration kMissedAfter = std::chrono::milliseconds(250);
constexpr Duration kStarved = std::chrono::seconds(20);
constexpr Duration kUnanswered = std::chrono::seconds(5);
constexpr std::uint64_t kPaceResults = 4;      // followed so far: then its pace is known
constexpr std::uint64_t kFewResults = 32;      // a view waits for no more
constexpr std::uint64_t kLargestMargin = 256;  // steps

double mebibytes(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}
std::string one_digit(double value) {
  const std::string text = std::to_string(value);
  return text.substr(0, text.find('.') + 2);
}
}  // namespace

// Of a checkpoint that the view goes back to nobody keeps the results that led there.
bool Learner::is_late() const {
  const view::View& view = job_.view();
  return job_.member && !job_.state_ready && job_.is_of_history() && !cut_off_ && !view.restores &&
         job_.progress.committed() < view.base_step;
}

bool Learner::learns() const {
  const view::View& view = job_.view();
  if (view.view_id == 0 || job_.finished || job_.progress.is_loading() || job_.takes_result)
    return false;
  if (job_.member) return is_late();
  if (view.stopped || job_.work_lost) return false;  // it could not compute what it is named for
  return job_.wants_in && (job_.has_room() || view.rank_of(job_.self()).has_value());
}

bool Learner::is_ready() const {
  if (!learns() || fetch_ || !following_ || !job_.is_of_history()) return false;
  if (!following_->has_sources() || job_.now > told_at_ + kSourceHeardLately) return false;
  // A step that it applies just now takes no longer than it takes the members.
  const std::uint64_t committed = job_.progress.committed();
  const std::uint64_t behind = std::max(following_->told(), committed) - committed;
  const bool paced = results_ >= kPaceResults && behind <= kFewResults;
  return behind <= 1 || (paced && behind * pace_ <= job_.options.timings.ready_within);
}

std::uint64_t Learner::learned_bytes() const {
  return bytes_before_ + (fetch_ ? fetch_->received_bytes() : 0) +
         (following_ ? following_->received_bytes() : 0);
}

void Learner::join_tick(Actions& out) {
  const view::View& view = job_.view();
  if (!job_.wants_in || job_.work_lost || job_.finished || (job_.member && job_.state_ready))
    return;
  if (view.view_id == 0 && view.is_acceptor(job_.self())) return;
  const bool full = !job_.member && !job_.has_room() && !view.rank_of(job_.self());
  const bool often = is_under_way() || is_late();
  const Duration every = job_.options.timings.join_every * (full ? 4 : 1);
  const bool all = join_asked_ == Time{} || job_.now >= join_asked_ + every;
  if (!all && !(often && job_.now >= learn_asked_ + job_.options.timings.learn_every)) return;
  if (all) join_asked_ = job_.now;
  learn_asked_ = job_.now;
  JoinAsk ask{job_.options.fingerprint,  !job_.member,
              learned_bytes(),           is_ready(),
              job_.progress.committed(), {}};
  ask.checkpoint = job_.checkpoint.name();
  ask.checkpoint_digest = job_.checkpoint.state_digest;
  for (const view::Member& one : view.members)
    if (job_.heard_within(one.node, kSourceHeardLately) && !job_.gone(one.node))
      ask.heard.push_back(one.node);
  for (const NodeId& node : all ? job_.everybody_and_hints() : job_.everybody())
    job_.send(node, ask, out);
}

bool Learner::is_unanswered() const {
  // Whose own work hangs asks nobody.
  const bool cares = job_.wants_in || job_.options.witness_only;
  const bool asks = cares && !job_.work_lost && !job_.member && !job_.finished;
  const bool waits = asks && !job_.takes_result && !job_.view().is_acceptor(job_.self()) &&
                     job_.now >= job_.installed_at + kUnanswered;
  if (!waits) return false;
  const std::vector<NodeId> asked = job_.everybody();
  const view::View& view = job_.view();
  return std::none_of(asked.begin(), asked.end(), [&](const NodeId& node) {
    // Another that only watches can answer nothing.
    const bool knows = view.members.empty() || view.rank_of(node) || view.is_acceptor(node);
    return knows && job_.heard_within(node, kUnanswered) && !job_.gone(node);
  });
}

bool Learner::is_starved() const {
  return fetch_ && job_.member &&
         job_.now >= std::max(fetch_->progressed(), job_.installed_at) + kStarved;
}

void Learner::on_load() {
  drop_fetch();
  begin_clock();
}

void Learner::begin_clock() {
  if (!began_) began_ = job_.now;
}

// A member told where it is: the way to the state begins or goes on there.
void Learner::on_status(const NodeId& from, const StepStatus& status, Actions& out) {
  if (!status.state_ready || status.results_from == 0 || !job_.view().rank_of(from)) return;
  if (status.committed > job_.options.total_steps) return;
  told_at_ = job_.now;
  std::uint64_t& told = told_committed_[from];
  told = std::max(told, status.committed);
  told_from_ = status.results_from;
  if (!learns()) return;
  if (!began_) {
    bytes_before_ = results_ = 0;
    pace_ = Duration{};
  }
  begin_clock();
  if (!following_ && !cut_off_ && job_.is_of_history()) follow();
  if (following_) following_->on_source(job_.now, from, status.committed, status.results_from);
  on_tick(out);
}

// The newest step that any member has told of, as far as none of them is gone.
std::uint64_t Learner::told_committed() const {
  std::uint64_t newest = 0;
  for (const auto& [node, told] : told_committed_) newest = std::max(newest, told);
  return newest;
}

void Learner::follow() {
  ResultFetch::Options chosen;
  chosen.first_step = job_.progress.committed() + 1;
  chosen.last_step = job_.options.total_steps;
  chosen.element_count = job_.options.element_count;
  chosen.part_bytes = job_.options.state_part_bytes;
  following_.emplace(chosen);
}

void Learner::on_tick(Actions& out) {
  if (!learns()) {
    if (job_.member && fetch_) {
      // A checkpoint may also be with nodes that did not vote on going back to it.
      if (job_.view().restores) fetch_->ask_also(job_.peers.known());
      return tick_fetch(out);
    }
    if (job_.member || job_.progress.is_loading()) return;
    drop();
    began_.reset();
    return;
  }
  if (following_ && following_->fell_behind()) {
    job_.report("the results since step " + std::to_string(job_.progress.committed()) +
                    " are no longer kept by the members: the state is fetched anew",
                out);
    drop_results();
    cut_off_ = cut_told_ = true;
    if (job_.member) return;
  }
  if (!following_ && !cut_off_ && job_.is_of_history()) follow();
  if (following_) {
    ResultFetch::Effects effects;
    following_->on_tick(job_.now, effects);
    job_.pass_on(effects, out);
  } else if (told_at_ != Time{}) {
    fetch_some_state(out);
  }
}

bool Learner::take_cut() {
  return std::exchange(cut_told_, false);
}

// The state after a step that the sources hold now or will soon; which one is theirs to say.
void Learner::fetch_some_state(Actions& out) {
  if (fetch_ && fetch_->meta() &&
      (told_from_ > fetch_->step() + 1 || fetch_->is_abandoned(job_.now))) {
    job_.report("the members are too far beyond step " + std::to_string(fetch_->step()) +
                    ", or gone: its state is given up and a newer one fetched",
                out);
    drop_fetch();
  }
  if (fetch_ && !fetch_->meta()) {
    // All may have passed the step before they heard of the wish: the next one is further ahead.
    if (told_committed() <= fetch_->step()) fetch_asked_ = job_.now;
    if (job_.now < fetch_asked_ + kMissedAfter) return tick_fetch(out);
    const std::uint64_t passed = told_committed() - fetch_->step();
    margin_ = std::clamp(2 * std::max(margin_, passed), std::uint64_t{1}, kLargestMargin);
    drop_fetch();
  }
  if (!fetch_) {
    if (told_committed_.empty()) return;  // who had told is gone
    begin_fetch(std::min(told_committed() + margin_, job_.options.total_steps));
    fetch_asked_ = job_.now;
  }
  tick_fetch(out);
}

// Whatever state the members hold after that step.
void Learner::begin_fetch(std::uint64_t step) {
  begin_fetch(job_.fetch_of(step, {}, job_.other_members()));
}

void Learner::begin_fetch(StateFetch::Options chosen) {
  fetch_.emplace(std::move(chosen));
  fetch_history_ = job_.view().history();
}

bool Learner::fetch_base(Actions& out) {
  const view::View& view = job_.view();
  std::vector<NodeId> sources;
  for (const NodeId& node : view.sync_sources)
    if (node != job_.self()) sources.push_back(node);
  if (sources.empty()) return false;
  const bool goes_on =
      fetch_ && fetch_->step() == view.base_step && fetch_->meta() &&
      fetch_history_ == view.history() &&
      (view.state_digest == Digest{} || fetch_->meta()->digest == view.state_digest);
  if (goes_on) {
    fetch_->set_sources(std::move(sources));
  } else {
    StateFetch::Options chosen =
        job_.fetch_of(view.base_step, view.state_digest, std::move(sources));
    chosen.result_digest = view.result_digest;
    begin_fetch(std::move(chosen));
  }
  begin_clock();
  tick_fetch(out);
  return true;
}

// Members may offer another step than the one asked for: one that they have copied already.
void Learner::on_offer(const NodeId& from, const HistoryId& history, const StateMeta& meta,
                       Actions& out) {
  if (!fetch_ || (history != fetch_history_ && meta.digest != fetch_->digest())) return;
  const bool new_to_us = meta.step > job_.progress.committed() || !job_.is_of_history();
  const bool other = !job_.member && !fetch_->meta() && meta.step != fetch_->step();
  if (meta.step > job_.options.total_steps || (other && !new_to_us)) return;
  if (other) begin_fetch(meta.step);
  StateFetch::Effects effects;
  fetch_->on_meta(job_.now, from, meta, effects);
  carry_out(effects, out);
}

void Learner::on_part(const NodeId& from, const StatePart& part, Actions& out) {
  if (!fetch_) return;
  StateFetch::Effects effects;
  fetch_->on_part(job_.now, from, part, effects);
  carry_out(effects, out);
}

void Learner::on_result(const NodeId& from, const ResultPart& part, Actions& out) {
  if (!learns() || !following_) return;
  ResultFetch::Effects effects;
  following_->on_part(job_.now, from, part, effects);
  job_.pass_on(effects, out);
}

std::optional<ResultFetch::Complete> Learner::next(Actions& out) {
  if (!following_ || !job_.is_applied() || !learns()) return std::nullopt;
  ResultFetch::Effects effects;
  std::optional<ResultFetch::Complete> next = following_->take(job_.now, effects);
  job_.pass_on(effects, out);
  if (!next || next->step != job_.progress.committed() + 1) return std::nullopt;
  ++results_;
  const Duration took = job_.now - std::max(applied_at_, began_.value_or(job_.now));
  pace_ = pace_ == Duration{} ? took : (3 * pace_ + took) / 4;
  applied_at_ = job_.now;
  return next;
}

std::optional<FetchedState> Learner::take_state() {
  return std::exchange(fetched_, std::nullopt);
}

void Learner::carry_out(StateFetch::Effects& effects, Actions& out) {
  job_.pass_on(effects, out);
  if (!effects.complete) return;
  fetched_ = FetchedState{*fetch_->meta(), std::move(*effects.complete), fetch_history_};
  drop_fetch();
}

void Learner::tick_fetch(Actions& out) {
  StateFetch::Effects effects;
  fetch_->on_tick(job_.now, effects);
  carry_out(effects, out);
}

void Learner::drop_fetch() {
  if (fetch_) bytes_before_ += fetch_->received_bytes();
  fetch_.reset();
}

void Learner::drop_results() {
  if (following_) bytes_before_ += following_->received_bytes();
  following_.reset();
}

void Learner::drop() {
  drop_fetch();
  drop_results();
}

void Learner::on_view(const view::View& before) {
  const view::View& view = job_.view();
  if (!fetch_) cut_off_ = false;  // else the results are gone as before
  if (view.history() != before.history()) {
    cut_off_ = false;
    drop_results();
    if (!job_.member) drop_fetch();
    told_committed_.clear();
    told_at_ = Time{};
    return;
  }
  std::erase_if(told_committed_, [&](const auto& one) { return !view.rank_of(one.first); });
  if (following_) {
    following_->set_sources(job_.other_members());
    following_->limit_to(job_.member ? view.base_step : job_.options.total_steps);
  }
  if (fetch_ && !job_.member) fetch_->set_sources(job_.other_members());
}

void Learner::on_reconnected(const NodeId& node) {
  if (following_) following_->lose(node);
  if (fetch_) fetch_->lose(node);
}

void Learner::on_gone(const NodeId& node) {
  told_committed_.erase(node);
  if (following_) following_->drop(node);
  if (fetch_) fetch_->drop(node);
}

void Learner::on_installed() {
  cut_off_ = false;
  drop_results();
}

void Learner::on_up_to_date(Actions& out) {
  drop();
  if (!began_) return;
  took_ = job_.now - *began_;
  began_.reset();
  margin_ = 0;
  const std::uint64_t bytes = learned_bytes();
  if (bytes == 0) return;
  job_.report("is up to date at step " + std::to_string(job_.progress.committed()) + ": " +
                  one_digit(mebibytes(bytes)) + " MiB in " +
                  one_digit(std::chrono::duration<double>(took_).count()) + " s, results of " +
                  std::to_string(results_) + " steps among them",
              out);
}

void Learner::tell(JobStatus& status) const {
  if (is_unanswered()) {
    status.reason = "nobody that had a part in the job answers";
    status.waiting_for = job_.everybody();
  }
  if (fetch_) {
    status.waiting_for = fetch_->sources();
    status.sync_total_bytes = fetch_->meta() ? fetch_->meta()->size_bytes : 0;
  }
  const std::uint64_t committed = job_.progress.committed();
  status.sync_received_bytes = learned_bytes();
  status.sync_results = results_;
  const std::uint64_t told = told_committed();
  status.sync_behind = told > committed && !job_.state_ready ? told - committed : 0;
  status.sync_time = began_ ? job_.now - *began_ : took_;
}

}  // namespace gpunode::job
