// Where a node's part in a job stands, as people read it and nodes tell each other. Wider than
// job::Phase, which is the core's own: it begins before there is a core (preparing, forming) and
// ends after it (finished, failed).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace gpunode::jobs {

enum class JobPhase : std::uint8_t {
  waiting,    // in the queue, for what it needs
  preparing,  // the trainer makes itself ready
  forming,    // the first view is being agreed on
  outsider,   // no member, and not on its way to be one
  witness,    // votes, and computes nothing
  learning,   // follows the members until it has their state
  syncing,    // a member that is not at the view's step yet
  running,
  validating,  // all steps are made; the loss on held-out samples is being computed
  saving,      // and the last checkpoint is on its way to the disk
  paused,      // waits for members that do not answer
  stopped,     // by order
  finished,    // its result is here
  failed,      // here; others may go on
  removed      // by order, with all that it had
};

inline constexpr std::string_view kJobPhases[] = {
    "waiting",    "preparing", "forming", "outsider", "witness",  "learning", "syncing", "running",
    "validating", "saving",    "paused",  "stopped",  "finished", "failed",   "removed"};

constexpr std::string_view to_string(JobPhase phase) {
  return kJobPhases[static_cast<std::size_t>(phase)];
}
// Nothing for a text that is no phase's.
constexpr std::optional<JobPhase> parse_job_phase(std::string_view text) {
  for (std::size_t index = 0; index < std::size(kJobPhases); ++index)
    if (kJobPhases[index] == text) return static_cast<JobPhase>(index);
  return std::nullopt;
}

// Whether nothing more will become of it at this node.
constexpr bool is_over(JobPhase phase) {
  return phase == JobPhase::finished || phase == JobPhase::failed || phase == JobPhase::removed;
}

}  // namespace gpunode::jobs
