// A text on its way through a form: where it may stand by now, whether it may end, and which of a vocabulary's
// tokens may come next. A function of the form and the text. One thread; a text each.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/grammar/automaton.hpp"
#include "runtime/grammar/detail/places.hpp"
#include "runtime/grammar/vocabulary.hpp"

namespace gpunode::grammar {

class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const Automaton> automaton);

  // Fails with: invalid_argument (the form takes no such text), resource_exhausted (it could stand at too
  // many places). After a failure: it takes nothing more.
  Result<void> add(std::string_view bytes);
  bool may_end() const { return places_.ended; }
  bool must_end() const { return places_.list.empty(); }

 private:
  friend class TokenMasks;
  void forget_frames();

  std::shared_ptr<const Automaton> automaton_;
  std::uint64_t number_ = 0;  // of what its frames mean
  detail::Frames frames_;
  detail::Places places_, next_;
};

// Masks of a vocabulary's tokens, a bit each. What holds for a state whatever stands around it is found once
// and kept, of JSON's own states for all forms together. Costs, for a state that is new, a walk over as
// much of the vocabulary as goes on from there; else a few microseconds a place, and a walk over the tokens
// that lead out of the innermost rule. Measured, of 50,000 tokens: 2 ms for the first state inside a text, once
// a model; then 2 us in the middle, 6 in the mean, 80 at most.
class TokenMasks {
 public:
  static constexpr std::size_t kKeptStates = 512, kKeptMasks = 64;

  explicit TokenMasks(std::shared_ptr<const Vocabulary> vocabulary);

  using Mask = std::span<const std::uint64_t>;
  // Which may come next; valid until the next call.
  Mask allowed(Matcher& matcher);

 private:
  // Of one state: what may come whatever stands around it.
  struct OfState {
    std::vector<std::uint64_t> allowed;
    std::vector<std::uint32_t> ways_out;  // nodes at which its rule may be over, with more behind
    std::uint32_t depth = 0;
    std::uint64_t used = 0;
  };
  struct Kept {
    std::uint64_t matcher = 0;
    std::vector<detail::Place> places;
    std::vector<std::uint64_t> mask;
  };
  using Key = std::pair<std::uint64_t, StateId>;

  void copy_twin(const Automaton& automaton, const State& state, OfState& to);
  const OfState& of_state(const Automaton& automaton, StateId state);
  void add_place(Matcher& matcher, detail::Place place, std::vector<std::uint64_t>& mask);
  void walk(detail::Frames& frames, std::uint32_t node, const detail::Places& from,
            std::vector<std::uint64_t>& mask, OfState* of_state, std::uint32_t known_bytes = 0);

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::map<Key, OfState> states_;
  std::uint64_t uses_ = 0;
  std::list<Kept> kept_;                // newest first
  std::vector<detail::Places> levels_;  // of a walk, a depth each
};

}  // namespace gpunode::grammar
