#include "tests/sim/job_coverage.hpp"

#include <algorithm>
#include <iterator>

namespace gpunode::sim {

namespace {

constexpr std::size_t kMessages = std::variant_size_v<job::JobBody>;

constexpr const char* kNames[] = {
    // kinds of messages, in the order of JobBody
    "StepMessage", "Vote", "FreezeHint", "ViewNotice", "ViewAsk", "JoinAsk", "JoinRefused",
    "StepStatus", "StateAsk", "StateMeta", "StateRead", "StatePart", "WitnessOffer", "ResultRead",
    "ResultPart", "LeaseAsk", "LeaseGrant", "GroupInvite",
    // what becomes of peers
    "peer alive", "peer suspect", "peer dead", "link up", "link refused",
    // the rest
    "start", "tick", "persisted", "partial", "applied", "state read", "state installed",
    "saved read", "checkpoint", "bulk reset", "group", "sums whole", "carried", "join", "leave",
    "stop", "resume", "recover"};
static_assert(std::size(kNames) == Coverage::kInputs, "each input has its name, in order");

std::string phase_name(std::size_t phase) {
  return std::string(job::to_string(static_cast<job::Phase>(phase)));
}

}  // namespace

Input input_of(const job::JobBody& body) {
  return {body.index()};
}
Input input_of(PeerHealth health) {
  return {kMessages + static_cast<std::size_t>(std::min(health, PeerHealth::dead))};
}
Input input_of(LinkState state) {
  return {kMessages + (state == LinkState::refused ? 4 : 3)};
}
Input input_of(Answer answer) {
  return {kMessages + Coverage::kPeerInputs + static_cast<std::size_t>(answer)};
}

std::string Coverage::table() const {
  const auto padded = [](std::string text) {
    text.resize(std::max<std::size_t>(text.size(), 11), ' ');
    return text;
  };
  std::string text = padded("input") + "     ";
  for (std::size_t phase = 0; phase < kPhases; ++phase) text += padded(phase_name(phase));
  std::string never;
  std::size_t met = 0;
  for (std::size_t input = 0; input < kInputs; ++input) {
    std::string name = kNames[input];
    name.resize(16, ' ');
    text += "\n" + name;
    std::string missing;
    for (std::size_t phase = 0; phase < kPhases; ++phase) {
      const std::uint64_t count = counts_[phase][input];
      text += padded(count == 0 ? "-" : std::to_string(count));
      if (count > 0)
        ++met;
      else
        missing += (missing.empty() ? "" : ", ") + phase_name(phase);
    }
    if (!missing.empty()) never += "\n  " + std::string(kNames[input]) + ": " + missing;
  }
  return text + "\n" + std::to_string(met) + " of " + std::to_string(kPhases * kInputs) +
         " pairs met; never:" + (never.empty() ? " none" : never);
}

}  // namespace gpunode::sim
