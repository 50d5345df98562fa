// What each member says before a step about its device, and what follows of what all say: whether
// the devices of all members sum the step together (mode `nccl`), or its chunks travel over the
// links as in exact mode. Pure, so that all members take the same way: each says one thing a step,
// and every member judges the same words.
//
// Until a view's devices have met, its steps travel over the links, and no step waits for them:
//   all are able     -> rank 0 makes the name under which they meet, and tells it with its offers
//   rank 0 named it  -> every member joins
//   all have joined  -> the devices sum from this step on
//   anybody is absent -> the links, now and until the next view
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/bytes.hpp"
#include "runtime/base/digest.hpp"

namespace gpunode::collective {

enum class IslandStage : std::uint8_t {
  absent,   // no device, or one that failed: not in this view
  opening,  // being looked for
  able,     // there is one, which has not met the others
  joined    // it has met those of all members
};

struct IslandOffer {
  IslandStage stage = IslandStage::opening;
  std::string reason;  // why it is absent, for people; at most kMostReason bytes
  Digest host;         // of the machine
  Bytes name;          // of the meeting: from rank 0 once it is made, from others once joined
  bool operator==(const IslandOffer&) const = default;

  static constexpr std::size_t kMostReason = 300, kMostName = 128;
};

// What a member's device comes to. Each order to it bears the number of the formation in which the
// members meet; what it tells of another is void.
struct IslandNews {
  enum class Kind : std::uint8_t {
    able,    // there is a device
    named,   // `name` is made
    joined,  // all have met
    summed,  // the sum of this order is in its place
    lost     // it is over, or never was: `reason`
  };
  Kind kind = Kind::lost;
  std::uint64_t formation = 0;
  std::uint64_t order = 0;
  Bytes name = {};
  std::string reason = {};
};

struct IslandVerdict {
  enum class Kind : std::uint8_t {
    unknown,  // offers are missing
    links,    // not in this view
    not_yet,  // the links, for now
    make_name,
    join,
    island
  };
  Kind kind = Kind::unknown;
  std::uint16_t rank = 0;  // links, not_yet: because of this member
  std::string reason;      // links, not_yet
};

// `offers` by rank. `unsealed`: whether bytes may travel in clear between machines, as NCCL's do.
IslandVerdict judge(std::span<const std::optional<IslandOffer>> offers, bool unsealed);

// Where a rank's device stands among those on its own machine: 0 for the lowest rank there.
std::uint16_t place_on_host(std::span<const std::optional<IslandOffer>> offers, std::uint16_t rank);
// Whether all offers are of one machine.
bool on_one_host(std::span<const std::optional<IslandOffer>> offers);

}  // namespace gpunode::collective
