// What was met in simulated worlds, of all that could be: in which phase a core was when which
// input came. A pair that no seed of a swarm has met is one that the swarm says nothing about.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "runtime/job/job_core.hpp"

namespace gpunode::sim {

// Inputs of a JobCore: kinds of messages first, by their number in JobBody, then what becomes of
// peers, then these.
struct Input {
  std::size_t index = 0;
};
enum class Answer : std::uint8_t {
  started,
  tick,
  persisted,
  partial,
  applied,
  state_read,
  state_installed,
  saved_read,
  checkpoint,
  bulk_reset,
  group,
  sums_whole,
  carried,
  join,
  leave,
  stop,
  resume,
  recover,
  kCount
};
Input input_of(const job::JobBody& body);
Input input_of(PeerHealth health);  // who left is dead
Input input_of(LinkState state);    // up or refused
Input input_of(Answer answer);

class Coverage {
 public:
  static constexpr std::size_t kPhases = static_cast<std::size_t>(job::Phase::done) + 1;
  static constexpr std::size_t kPeerInputs = 5;
  static constexpr std::size_t kInputs =
      std::variant_size_v<job::JobBody> + kPeerInputs + static_cast<std::size_t>(Answer::kCount);
  void met(job::Phase phase, Input input) {
    ++counts_[static_cast<std::size_t>(phase)][input.index];
  }
  // One line an input, one column a phase; then those that were never met.
  std::string table() const;

 private:
  std::array<std::array<std::uint64_t, kInputs>, kPhases> counts_{};
};

}  // namespace gpunode::sim
