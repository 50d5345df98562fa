#include "runtime/job/joiners.hpp"

#include <algorithm>

namespace gpunode::job {

namespace {
constexpr std::size_t kMaxJoiners = 4096;
constexpr Duration kHearsFor = std::chrono::milliseconds(1500);  // after its last JOIN
constexpr Duration kReadyFor = std::chrono::milliseconds(500);   // after it last said so
constexpr std::uint64_t kStepsInHand = 3;  // that a ready learner may be behind
constexpr std::uint64_t kFewSteps = 32;    // likewise, if its pace is known
constexpr std::uint64_t kPaceKnown = 4;    // from that step on at the earliest
constexpr Duration kSyncStall = std::chrono::seconds(20);
constexpr Duration kRefusedFor = std::chrono::seconds(5);    // doubled each time in a row
constexpr Duration kMostRefused = std::chrono::seconds(40);  // up to that
constexpr Duration kBarredFor = std::chrono::seconds(30);
}  // namespace

Joiners::Answer Joiners::on_join(const NodeId& from, Boot boot, bool same_view, const JoinAsk& ask,
                                 Actions& out) {
  const view::View& view = job_.view();
  if (joiners_.size() >= kMaxJoiners && !joiners_.contains(from)) return Answer::old;
  if (view.view_id > 0 && ask.fingerprint != view.fingerprint) {
    job_.send(from,
              JoinRefused{"its compute fingerprint differs: other instruction set or library"},
              out);
    return Answer::refused;
  }
  Joiner& joiner = joiners_[from];
  if (boot < joiner.boot) return Answer::old;
  const bool new_life = boot > joiner.boot;
  if (new_life) joiner = Joiner{};
  if (joiner.asked == Time{} || ask.received_bytes != joiner.received_bytes ||
      job_.now > joiner.asked + job_.options.timings.joiner_fresh)
    joiner.progress = job_.now;
  joiner.boot = boot;
  joiner.asked = job_.now;
  joiner.fingerprint = ask.fingerprint;
  joiner.received_bytes = ask.received_bytes;
  // A step that it applies when the votes are counted takes nothing of its word back; falling
  // behind does. An old word, of a node that stood still, says nothing of now.
  const std::uint64_t committed = job_.progress.committed();
  const std::uint64_t most_behind = ask.step < kPaceKnown ? kStepsInHand : kFewSteps;
  if (ask.ready && same_view && ask.step + most_behind >= committed)
    joiner.ready_at = job_.now;
  else if (ask.step + kStepsInHand < committed)
    joiner.ready_at = Time{};
  joiner.step = ask.step;
  joiner.checkpoint = ask.checkpoint;
  joiner.checkpoint_digest = ask.checkpoint_digest;
  joiner.hears_us = std::find(ask.heard.begin(), ask.heard.end(), job_.self()) != ask.heard.end();
  return new_life ? Answer::new_life : Answer::noted;
}

bool Joiners::is_fresh(const Joiner& joiner) const {
  return joiner.asked != Time{} && job_.now < joiner.asked + job_.options.timings.joiner_fresh;
}

bool Joiners::is_fresh(const NodeId& node) const {
  const auto found = joiners_.find(node);
  return found != joiners_.end() && is_fresh(found->second);
}

bool Joiners::is_barred(const NodeId& node) const {
  const auto found = joiners_.find(node);
  return found != joiners_.end() && found->second.barred_until > job_.now;
}

bool Joiners::anyone_asks() const {
  return std::any_of(joiners_.begin(), joiners_.end(),
                     [this](const auto& one) { return is_fresh(one.second); });
}

bool Joiners::somebody_comes() const {
  return job_.has_room() && std::any_of(joiners_.begin(), joiners_.end(), [this](const auto& one) {
           return is_fresh(one.second) && !job_.gone(one.first);
         });
}

bool Joiners::has_learner() const {
  return job_.has_room() && std::any_of(joiners_.begin(), joiners_.end(), [this](const auto& one) {
           return is_fresh(one.second) && !job_.view().rank_of(one.first);
         });
}

std::vector<NodeId> Joiners::reached() const {
  std::vector<NodeId> nodes;
  for (const auto& [node, joiner] : joiners_)
    if (joiner.hears_us && job_.now < joiner.asked + kHearsFor && job_.reached(node))
      nodes.push_back(node);
  return nodes;
}

std::vector<Joining> Joiners::joining(std::uint64_t results_from) const {
  const view::View& view = job_.view();
  const std::uint64_t committed = job_.progress.committed();
  std::vector<Joining> result;
  for (const auto& [node, joiner] : joiners_) {
    const bool fits = view.view_id == 0 || joiner.fingerprint == view.fingerprint;
    if (!is_fresh(joiner) || !fits || job_.gone(node) || joiner.barred_until > job_.now) continue;
    const bool kept = joiner.step + 1 >= results_from && joiner.step <= committed + 1;
    const bool said = joiner.ready_at != Time{} && job_.now < joiner.ready_at + kReadyFor;
    const bool near = joiner.step + kFewSteps >= committed;  // by now
    result.push_back({{node, joiner.boot},
                      said && kept && near && !job_.is_last_step(),
                      joiner.checkpoint,
                      joiner.checkpoint_digest,
                      job_.peers.had_part(node)});
  }
  return result;
}

std::optional<NodeId> Joiners::bar_stuck_member() {
  for (auto& [node, joiner] : joiners_) {
    if (!job_.view().rank_of(node) || !is_fresh(joiner) || job_.now < joiner.progress + kSyncStall)
      continue;
    joiner.barred_until = job_.now + kBarredFor;
    return node;
  }
  return std::nullopt;
}

void Joiners::on_view(const view::View& before, std::uint64_t results_from) {
  const view::View& view = job_.view();
  if (job_.has_room())
    for (const Joining& one : joining(results_from))  // not all members reach it
      if (one.ready && !view.rank_of(one.member.node)) {
        Joiner& joiner = joiners_[one.member.node];
        joiner.refused_for = std::clamp(2 * joiner.refused_for, kRefusedFor, kMostRefused);
        joiner.barred_until = job_.now + joiner.refused_for;
      }
  for (const view::Member& one : before.members) {
    Joiner& joiner = joiners_[one.node];
    if (view.has_member(one) || joiner.boot > one.boot) continue;
    joiner.boot = one.boot;
    joiner.barred_until = job_.now + kRefusedFor;
  }
  for (const view::Member& one : view.members)
    if (const auto found = joiners_.find(one.node); found != joiners_.end()) {
      found->second.asked = Time{};
      found->second.refused_for = Duration{};
    }
}

void Joiners::on_history() {
  for (auto& [node, joiner] : joiners_) joiner.ready_at = Time{};
}

}  // namespace gpunode::job
