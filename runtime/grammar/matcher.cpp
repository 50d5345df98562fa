#include "runtime/grammar/matcher.hpp"

#include <algorithm>
#include <atomic>

namespace gpunode::grammar {
namespace {

using detail::Frames;
using detail::kBottom;
using detail::kOutside;
using detail::Place;
using detail::Places;

constexpr std::size_t kMostFrames = 1 << 14;  // before those that are not needed are forgotten

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

Matcher::Matcher(std::shared_ptr<const Automaton> automaton)
    : automaton_(std::move(automaton)), number_(next_number()), frames_(*automaton_) {
  frames_.enter({automaton_->start(), kBottom}, places_);
}

Result<void> Matcher::add(std::string_view bytes) {
  for (const char byte : bytes) {
    frames_.advance(places_, static_cast<std::uint8_t>(byte), next_);
    std::swap(places_, next_);
    if (places_.too_many)
      return {ErrorCode::resource_exhausted,
              "the form could be read in too many ways at once: its alternatives begin too much "
              "alike"};
    if (places_.is_nowhere()) return {ErrorCode::invalid_argument, "the text leaves its form"};
  }
  if (frames_.size() > kMostFrames) forget_frames();
  return {};
}

// But those of where the text stands.
void Matcher::forget_frames() {
  Frames fresh(*automaton_);
  Places moved;
  moved.ended = places_.ended;
  for (const Place& place : places_.list) {
    std::vector<StateId> way;
    for (detail::FrameId at = place.behind; at != kBottom; at = frames_[at].behind)
      way.push_back(frames_[at].to);
    detail::FrameId behind = kBottom;
    for (; !way.empty(); way.pop_back()) behind = fresh.push(way.back(), behind);
    moved.list.push_back({place.state, behind});
  }
  frames_ = std::move(fresh);
  places_ = std::move(moved);
  number_ = next_number();
}

TokenMasks::TokenMasks(std::shared_ptr<const Vocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)), levels_(vocabulary_->longest() + 1) {}

// Marks the tokens below a node that go on from these places; what has no token of more than `known_bytes` is
// passed over.
void TokenMasks::walk(Frames& frames, std::uint32_t node, const Places& from,
                      std::vector<std::uint64_t>& mask, OfState* of_state,
                      std::uint32_t known_bytes) {
  const auto nodes = vocabulary_->nodes();
  const std::uint32_t base = nodes[node].depth, behind = nodes[node].behind;
  levels_[0] = from;
  for (std::uint32_t at = node + 1; at < behind;) {
    const Vocabulary::Node& here = nodes[at];
    if (here.longest <= known_bytes) {
      at = here.behind;
      continue;
    }
    Places& places = levels_[here.depth - base];
    frames.advance(levels_[here.depth - base - 1], here.byte, places);
    if (places.is_nowhere()) {
      at = here.behind;
      continue;
    }
    for (const std::uint32_t token : vocabulary_->tokens_of(here))
      mask[token / 64] |= std::uint64_t{1} << token % 64;
    if (of_state) {
      of_state->depth = std::max(of_state->depth, places.depth);
      if (places.outside && here.behind > at + 1) of_state->ways_out.push_back(at);
    }
    at = places.list.empty() ? here.behind : at + 1;
  }
}

// Of the twin what it says of tokens that are short enough.
void TokenMasks::copy_twin(const Automaton& automaton, const State& state, OfState& to) {
  const OfState& twin = of_state(automaton, state.twin);
  to.allowed = twin.allowed;
  to.depth = twin.depth;
  for (const std::uint32_t token : vocabulary_->longer_than(state.twin_bytes))
    to.allowed[token / 64] &= ~(std::uint64_t{1} << token % 64);
  for (const std::uint32_t node : twin.ways_out)
    if (vocabulary_->nodes()[node].longest <= state.twin_bytes) to.ways_out.push_back(node);
}

const TokenMasks::OfState& TokenMasks::of_state(const Automaton& automaton, StateId state) {
  const Key key{state < automaton.shared_states() ? 0 : automaton.number(), state};
  const auto [found, is_new] = states_.try_emplace(key);
  found->second.used = ++uses_;
  if (!is_new) return found->second;
  if (states_.size() > kKeptStates)
    states_.erase(
        std::ranges::min_element(states_, {}, [](const auto& entry) { return entry.second.used; }));
  OfState& made = found->second;
  made.allowed.resize((vocabulary_->size() + 63) / 64);
  Frames frames(automaton);
  Places from;
  from.list.push_back({state, kOutside});
  const State& is = automaton[state];
  if (is.twin_bytes > 0) copy_twin(automaton, is, made);
  walk(frames, 0, from, made.allowed, &made, is.twin_bytes);
  return made;
}

void TokenMasks::add_place(Matcher& matcher, Place place, std::vector<std::uint64_t>& mask) {
  const OfState& known = of_state(*matcher.automaton_, place.state);
  Frames& frames = matcher.frames_;
  Places from;
  if (frames[place.behind].depth + known.depth > Automaton::kMostDepth) {
    from.list.push_back(place);  // near the bound what is allowed depends on how near
    return walk(frames, 0, from, mask, nullptr);
  }
  for (std::size_t word = 0; word < mask.size(); ++word) mask[word] |= known.allowed[word];
  if (place.behind == kBottom || known.ways_out.empty()) return;
  frames.enter({frames[place.behind].to, frames[place.behind].behind}, from);
  for (const std::uint32_t node : known.ways_out) walk(frames, node, from, mask, nullptr);
}

TokenMasks::Mask TokenMasks::allowed(Matcher& matcher) {
  const std::vector<Place>& places = matcher.places_.list;
  const auto found = std::ranges::find_if(kept_, [&](const Kept& kept) {
    return kept.matcher == matcher.number_ && kept.places == places;
  });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front().mask;
  }
  if (kept_.size() == kKeptMasks) kept_.pop_back();
  Kept made{matcher.number_, places, {}};
  made.mask.resize((vocabulary_->size() + 63) / 64);
  for (const Place& place : made.places) add_place(matcher, place, made.mask);
  kept_.push_front(std::move(made));
  return kept_.front().mask;
}

}  // namespace gpunode::grammar
