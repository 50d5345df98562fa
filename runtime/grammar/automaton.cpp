#include "runtime/grammar/automaton.hpp"

#include <algorithm>
#include <atomic>
#include <map>

namespace gpunode::grammar {

RuleId AutomatonBuilder::add_rule(std::string name) {
  automaton_.starts_.push_back(add_state());
  names_.push_back(std::move(name));
  return static_cast<RuleId>(names_.size() - 1);
}

// Past the bound it is the last one again: finish() refuses then.
StateId AutomatonBuilder::add_state() {
  if (automaton_.states_.size() <= kMostStates) automaton_.states_.emplace_back();
  return static_cast<StateId>(automaton_.states_.size() - 1);
}

bool AutomatonBuilder::is_full() const {
  return automaton_.states_.size() > kMostStates || names_.size() > kMostRules;
}

void AutomatonBuilder::on_bytes(StateId from, std::uint8_t first, std::uint8_t last, StateId to) {
  automaton_.states_[from].bytes.push_back({first, last, to});
}

void AutomatonBuilder::has_twin(StateId state, StateId twin, std::uint64_t bytes) {
  automaton_.states_[state].twin = twin;
  automaton_.states_[state].twin_bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(bytes, std::numeric_limits<std::uint32_t>::max()));
}

void AutomatonBuilder::on_any_of(StateId from, std::string_view bytes, StateId to) {
  for (const char one : bytes) {
    const auto byte = static_cast<std::uint8_t>(one);
    on_bytes(from, byte, byte, to);
  }
}

void AutomatonBuilder::silently(StateId from, StateId to) {
  automaton_.states_[from].silent.push_back(to);
}

void AutomatonBuilder::on_rule(StateId from, RuleId rule, StateId to) {
  automaton_.states_[from].rules.push_back({rule, to});
}

StateId AutomatonBuilder::on_rule(StateId from, RuleId rule) {
  const StateId to = add_state();
  on_rule(from, rule, to);
  return to;
}

StateId AutomatonBuilder::on_text(StateId from, std::string_view text) {
  for (const char one : text) {
    const StateId to = add_state();
    on_any_of(from, std::string_view(&one, 1), to);
    from = to;
  }
  return from;
}

StateId AutomatonBuilder::on_one_of(StateId from, std::span<const std::string> texts) {
  const StateId behind = add_state();
  std::map<std::pair<StateId, char>, StateId> known;
  for (const std::string& text : texts) {
    StateId at = from;
    for (const char one : text) {
      if (is_full()) return behind;
      const auto [found, is_new] = known.try_emplace({at, one}, 0);
      if (is_new) {
        found->second = add_state();
        on_any_of(at, std::string_view(&one, 1), found->second);
      }
      at = found->second;
    }
    silently(at, behind);
  }
  return behind;
}

// From each state the end that needs the fewest rules within each other: found anew until nothing changes.
void AutomatonBuilder::find_heights() {
  std::vector<State>& states = automaton_.states_;
  for (State& state : states) state.height = state.ends ? 0 : Automaton::kNoEnd;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t at = states.size(); at-- > 0;) {
      State& state = states[at];
      std::uint16_t least = state.height;
      for (const ByteStep& step : state.bytes) least = std::min(least, states[step.to].height);
      for (const StateId to : state.silent) least = std::min(least, states[to].height);
      for (const RuleStep& step : state.rules) {
        const std::uint16_t inner = states[automaton_.starts_[step.rule]].height;
        if (inner >= Automaton::kMostDepth) continue;
        const auto deeper = static_cast<std::uint16_t>(inner + 1);
        least = std::min(least, std::max(deeper, states[step.to].height));
      }
      if (least == state.height) continue;
      state.height = least;
      changed = true;
    }
  }
}

namespace {

// The rules that a rule's text may begin with, and whether it may be empty, given which others may.
struct Beginning {
  std::vector<RuleId> rules;
  bool may_be_empty = false;
};

Beginning beginning_of(const Automaton& automaton, RuleId rule, const std::vector<bool>& empty) {
  Beginning found;
  std::vector<StateId> left{automaton.start_of(rule)};
  std::vector<StateId> seen;
  while (!left.empty()) {
    const StateId at = left.back();
    left.pop_back();
    if (std::ranges::find(seen, at) != seen.end()) continue;
    seen.push_back(at);
    const State& state = automaton[at];
    found.may_be_empty = found.may_be_empty || state.ends;
    left.insert(left.end(), state.silent.begin(), state.silent.end());
    for (const RuleStep& step : state.rules) {
      found.rules.push_back(step.rule);
      if (empty[step.rule]) left.push_back(step.to);
    }
  }
  return found;
}

}  // namespace

Result<void> AutomatonBuilder::refuse_endless_beginnings() const {
  const std::size_t count = names_.size();
  std::vector<bool> empty(count);
  std::vector<Beginning> beginnings(count);
  for (bool changed = true; changed;) {
    changed = false;
    for (RuleId rule = 0; rule < count; ++rule) {
      beginnings[rule] = beginning_of(automaton_, rule, empty);
      changed = changed || beginnings[rule].may_be_empty != empty[rule];
      empty[rule] = beginnings[rule].may_be_empty;
    }
  }
  // Rules that lead nowhere but to such as have been taken off already are taken off; a circle stays.
  std::vector<std::size_t> left(count);
  std::vector<std::vector<RuleId>> led_to(count);
  std::vector<RuleId> done;
  for (RuleId rule = 0; rule < count; ++rule) {
    left[rule] = beginnings[rule].rules.size();
    for (const RuleId inner : beginnings[rule].rules) led_to[inner].push_back(rule);
    if (left[rule] == 0) done.push_back(rule);
  }
  for (std::size_t next = 0; next < done.size(); ++next)
    for (const RuleId outer : led_to[done[next]])
      if (--left[outer] == 0) done.push_back(outer);
  for (RuleId rule = 0; rule < count; ++rule)
    if (left[rule] > 0)
      return {ErrorCode::invalid_argument,
              names_[rule] + " leads to itself before anything is written"};
  return {};
}

Result<std::shared_ptr<const Automaton>> AutomatonBuilder::finish() {
  if (is_full())
    return Error{
        ErrorCode::resource_exhausted,
        "the form takes more than " + std::to_string(kMostStates) + " states or " +
            std::to_string(kMostRules) +
            " rules: ask for fewer properties, or smaller numbers of items and characters"};
  if (auto good = refuse_endless_beginnings(); !good) return good.error();
  find_heights();
  if (automaton_[automaton_.start()].height >= Automaton::kMostDepth - 8)
    return Error{ErrorCode::invalid_argument,
                 "no text has this form, or none whose values stand less than " +
                     std::to_string(Automaton::kMostDepth) + " deep in each other"};
  static std::atomic<std::uint64_t> last_number{0};
  automaton_.number_ = ++last_number;
  return std::make_shared<const Automaton>(std::move(automaton_));
}

}  // namespace gpunode::grammar
