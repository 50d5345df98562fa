#include "actors/job/job_history.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpunode::jobs {
namespace {

constexpr std::size_t kEventBytes = 1000;

}  // namespace

bool JobHistory::begin_at(std::uint64_t first, Commit before, SliceCounts slices,
                          std::uint64_t skipped) {
  if (first == 0 || first - 1 > before.step) return false;
  first_ = first;
  before_ = std::move(before);
  slices_ = std::move(slices);
  skipped_ = skipped;
  return true;
}

void JobHistory::jump_to(Commit where) {
  first_ = where.step + 1;
  before_ = std::move(where);
  slices_.clear();
  skipped_ = 0;
  commits_.clear();
}

void JobHistory::add(Commit commit) {
  if (commit.step != newest().step + 1) jump_to({.step = commit.step - 1});
  if (commit.skipped) ++skipped_;  // of one that is read; a new one is told to be so later
  if (commit.computed) {
    for (const auto& [node, count] : *commit.computed) slices_[node] += count;
    const auto& last = newest().computed;  // mostly the same ones compute the same share
    if (last && *last == *commit.computed) commit.computed = last;
  }
  commits_.push_back(std::move(commit));
  trim();
}

void JobHistory::trim() {
  while (commits_.size() > kCommitsKept) {
    before_ = std::move(commits_.front());
    commits_.pop_front();
  }
}

void JobHistory::undo_to(std::uint64_t step) {
  for (; !commits_.empty() && commits_.back().step > step; commits_.pop_back()) {
    const Commit& undone = commits_.back();
    if (undone.skipped) --skipped_;
    if (!undone.computed) continue;
    for (const auto& [node, count] : *undone.computed)
      if (const auto all = slices_.find(node); (all->second -= count) == 0) slices_.erase(all);
  }
  if (newest().step > step) jump_to({.step = step});
}

bool JobHistory::take(JobHistory earlier) {
  const std::uint64_t last = first_ - 1;
  if (last == 0 || earlier.newest().step < last) return false;
  earlier.undo_to(last);
  if (earlier.first_ > last) return false;
  const bool meets = before_.step == last;
  const Digest &here = before_.state, &there = earlier.newest().state;
  if (meets && here != Digest{} && there != Digest{} && here != there) return false;
  first_ = earlier.first_;
  skipped_ += earlier.skipped_;
  for (const auto& [node, count] : earlier.slices_) slices_[node] += count;
  if (!meets) return true;  // there are more commits since then than are kept
  before_ = std::move(earlier.before_);
  commits_.insert(commits_.begin(), std::make_move_iterator(earlier.commits_.begin()),
                  std::make_move_iterator(earlier.commits_.end()));
  trim();
  return true;
}

void JobHistory::add_event(Event event) {
  event.text.resize(std::min(event.text.size(), kEventBytes));
  events_.push_back(std::move(event));
  if (events_.size() > kEventsKept) events_.pop_front();
}

void JobHistory::take_events(const JobHistory& other, Time after, Time before) {
  std::deque<Event> all;
  const auto own =
      std::ranges::find_if(events_, [&](const Event& one) { return one.time > after; });
  std::ranges::move(events_.begin(), own, std::back_inserter(all));
  for (const Event& one : other.events_)
    if (one.time > after && one.time < before) all.push_back(one);
  std::ranges::move(own, events_.end(), std::back_inserter(all));
  events_ = std::move(all);
  while (events_.size() > kEventsKept) events_.pop_front();
}

const JobHistory::Commit* JobHistory::commit_of(std::uint64_t step) const {
  if (step == before_.step) return &before_;
  if (step < before_.step || step > newest().step) return nullptr;
  return &commits_[step - before_.step - 1];
}

JobHistory::Commit* JobHistory::kept(std::uint64_t step) {
  if (step <= before_.step || step > newest().step) return nullptr;
  return &commits_[step - before_.step - 1];
}

void JobHistory::count_skipped(std::uint64_t step) {
  ++skipped_;
  if (Commit* commit = kept(step)) commit->skipped = true;
}

void JobHistory::on_applied(std::uint64_t step, double loss, const Digest& state) {
  Commit* commit = kept(step);
  if (!commit) return;
  commit->loss = loss;
  commit->state = state;
}

void JobHistory::change_event(const std::string& text, std::string to) {
  const auto found = std::find_if(events_.rbegin(), events_.rend(),
                                  [&](const Event& one) { return one.text == text; });
  if (found != events_.rend()) found->text = std::move(to);
}

}  // namespace gpunode::jobs
