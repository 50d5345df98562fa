#include "runtime/grammar/detail/places.hpp"

#include <algorithm>

namespace gpunode::grammar::detail {
namespace {

// In a form that is sensible they are a handful.
constexpr std::size_t kMostPlaces = 1024;

// The rule's text ends there, and nothing else may come.
bool is_last(const State& state) {
  return state.ends && state.bytes.empty() && state.rules.empty() && state.silent.empty();
}

}  // namespace

void Places::clear() {
  list.clear();
  ended = outside = too_many = false;
  depth = 0;
}

Frames::Frames(const Automaton& automaton) : automaton_(&automaton) {
  clear();
}

void Frames::clear() {
  frames_.assign(2, {});
  known_.clear();
}

FrameId Frames::push(StateId to, FrameId behind) {
  const auto [found, is_new] =
      known_.try_emplace(std::uint64_t{to} << 32 | behind, static_cast<FrameId>(frames_.size()));
  if (is_new) frames_.push_back({to, behind, frames_[behind].depth + 1});
  return found->second;
}

void Frames::enter(Place place, Places& to) {
  left_.assign(1, place);
  seen_.clear();
  while (!left_.empty()) {
    const Place at = left_.back();
    left_.pop_back();
    const State& state = (*automaton_)[at.state];
    const std::uint32_t depth = frames_[at.behind].depth + state.height;
    if (depth > Automaton::kMostDepth) continue;  // it would have no end
    const bool is_plain = state.rules.empty() && state.silent.empty() && !state.ends;
    if (!is_plain) {
      if (std::ranges::find(seen_, at) != seen_.end()) continue;
      seen_.push_back(at);
    }
    to.depth = std::max(to.depth, depth);
    if (!state.bytes.empty() && std::ranges::find(to.list, at) == to.list.end()) {
      if (to.list.size() < kMostPlaces)
        to.list.push_back(at);
      else
        to.too_many = true;
    }
    for (const StateId next : state.silent) left_.push_back({next, at.behind});
    for (const RuleStep& step : state.rules) {
      const State& then = (*automaton_)[step.to];
      if (frames_[at.behind].depth + then.height > Automaton::kMostDepth) continue;
      left_.push_back(
          {automaton_->start_of(step.rule), is_last(then) ? at.behind : push(step.to, at.behind)});
    }
    if (!state.ends) continue;
    if (at.behind == kBottom)
      to.ended = true;
    else if (at.behind == kOutside)
      to.outside = true;
    else
      left_.push_back({frames_[at.behind].to, frames_[at.behind].behind});
  }
}

void Frames::advance(const Places& from, std::uint8_t byte, Places& to) {
  to.clear();
  for (const Place& place : from.list)
    for (const ByteStep& step : (*automaton_)[place.state].bytes) {
      if (byte < step.first || byte > step.last) continue;
      const State& next = (*automaton_)[step.to];
      const std::uint32_t depth = frames_[place.behind].depth + next.height;
      const bool is_alone = to.list.empty() && next.rules.empty() && next.silent.empty() &&
                            !next.ends && !next.bytes.empty();
      if (!is_alone || depth > Automaton::kMostDepth) {
        enter({step.to, place.behind}, to);
        continue;
      }
      to.list.push_back({step.to, place.behind});  // as entering it would
      to.depth = std::max(to.depth, depth);
    }
}

}  // namespace gpunode::grammar::detail
