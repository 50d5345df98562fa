// Where a text may stand in a form: states, each with the frames that its rule returns to. Frames that are
// the same are one, so a set of places stays small however deep it is. Private to the matcher and
// the masks. One thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/grammar/automaton.hpp"

namespace gpunode::grammar::detail {

using FrameId = std::uint32_t;
inline constexpr FrameId kBottom = 0;   // behind it the whole text is over
inline constexpr FrameId kOutside = 1;  // behind it is what is not known

struct Place {
  StateId state = 0;
  FrameId behind = kBottom;
  bool operator==(const Place&) const = default;
};

// All where one text may stand.
struct Places {
  std::vector<Place> list;  // that go on with bytes
  bool ended = false;       // the whole text may be over
  bool outside = false;     // or may have gone on outside
  bool too_many = false;    // some are left out
  std::uint32_t depth = 0;  // at most, with what an end takes
  bool is_nowhere() const { return list.empty() && !ended && !outside; }
  void clear();
};

class Frames {
 public:
  explicit Frames(const Automaton& automaton);

  struct Frame {
    StateId to = 0;
    FrameId behind = kBottom;
    std::uint32_t depth = 0;
  };
  const Frame& operator[](FrameId frame) const { return frames_[frame]; }
  std::size_t size() const { return frames_.size(); }
  void clear();
  // That returns to a state, and then to what is behind.
  FrameId push(StateId to, FrameId behind);

  // Adds the place, or those that are reached from it without a byte.
  void enter(Place place, Places& to);
  void advance(const Places& from, std::uint8_t byte, Places& to);

 private:
  const Automaton* automaton_;
  std::vector<Frame> frames_;
  std::unordered_map<std::uint64_t, FrameId> known_;
  std::vector<Place> left_, seen_;  // of one enter()
};

}  // namespace gpunode::grammar::detail
