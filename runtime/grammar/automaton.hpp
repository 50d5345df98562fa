// A form of texts as a pushdown automaton over bytes: rules, each a small automaton whose steps read a byte or
// a whole text of another rule. Built once through AutomatonBuilder, which bounds it and refuses
// what has no end; immutable then, any thread. What stands where is told by a matcher (matcher.hpp).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace gpunode::grammar {

using StateId = std::uint32_t;
using RuleId = std::uint32_t;

struct ByteStep {
  std::uint8_t first = 0, last = 0;  // bytes from the one to the other
  StateId to = 0;
};
struct RuleStep {
  RuleId rule = 0;
  StateId to = 0;
};
struct State {
  std::vector<ByteStep> bytes;
  std::vector<RuleStep> rules;
  std::vector<StateId> silent;  // reached without a byte
  bool ends = false;            // its rule's text may end here
  // For tokens of up to so many bytes, what may come is what may come at that other state; 0: for none.
  StateId twin = 0;
  std::uint32_t twin_bytes = 0;
  std::uint16_t height = 0;  // rules within each other that the shortest end from here takes
};

class Automaton {
 public:
  // How many rules may stand in each other; a text that would need more cannot be written.
  static constexpr std::uint16_t kMostDepth = 256;
  static constexpr std::uint16_t kNoEnd = std::numeric_limits<std::uint16_t>::max();

  const State& operator[](StateId state) const { return states_[state]; }
  StateId start_of(RuleId rule) const { return starts_[rule]; }
  StateId start() const { return starts_.back(); }  // of the whole text
  std::size_t size() const { return states_.size(); }
  std::uint64_t number() const { return number_; }  // of this one alone, not 0
  // As many of the first states are the same in all automata of the form JSON.
  std::size_t shared_states() const { return shared_states_; }

 private:
  friend class AutomatonBuilder;
  std::vector<State> states_;
  std::vector<StateId> starts_;  // a rule each
  std::size_t shared_states_ = 0;
  std::uint64_t number_ = 0;
};

// Fails, at the end, with whatever went wrong first.
class AutomatonBuilder {
 public:
  static constexpr std::size_t kMostStates = 1 << 14, kMostRules = 1 << 12;

  // A rule that begins at a new state; its name for errors.
  RuleId add_rule(std::string name);
  StateId start_of(RuleId rule) const { return automaton_.starts_[rule]; }
  StateId add_state();
  void ends(StateId state) { automaton_.states_[state].ends = true; }
  void has_twin(StateId state, StateId twin, std::uint64_t bytes);
  void on_bytes(StateId from, std::uint8_t first, std::uint8_t last, StateId to);
  void on_any_of(StateId from, std::string_view bytes, StateId to);
  void silently(StateId from, StateId to);
  // The state behind the rule's text, or these bytes.
  StateId on_rule(StateId from, RuleId rule);
  StateId on_text(StateId from, std::string_view text);
  void on_rule(StateId from, RuleId rule, StateId to);
  // Behind each of these texts; those that begin alike share the states of that.
  StateId on_one_of(StateId from, std::span<const std::string> texts);

  void share_what_is_there() { automaton_.shared_states_ = automaton_.states_.size(); }
  bool is_full() const;
  // With the last rule as that of the whole text. Fails with: resource_exhausted (more states or
  // rules than may be), invalid_argument (a rule that leads to itself before a byte, or that no text ends).
  Result<std::shared_ptr<const Automaton>> finish();

 private:
  void find_heights();
  Result<void> refuse_endless_beginnings() const;

  Automaton automaton_;
  std::vector<std::string> names_;  // of rules
};

}  // namespace gpunode::grammar
