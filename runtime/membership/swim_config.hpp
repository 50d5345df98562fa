// The knobs of failure detection, with what each buys and costs. Plain values; the two profiles
// are the ones that a configuration file names.
#pragma once

#include <chrono>
#include <cstddef>

#include "runtime/base/clock.hpp"

namespace gpunode::membership {

namespace testing {
// Rules that a test may break, to prove that the simulator would notice. Production: all false.
struct Mutation {
  bool no_refutation = false;      // a node called suspect or dead does not object
  bool no_dead_retry = false;      // the dead are never tried again
  bool accept_stale_boot = false;  // an older incarnation replaces a newer one
  bool ignore_answers = false;     // traffic does not clear a suspicion, nor an answer a probe
  bool unsigned_records = false;   // signatures are not looked at
};
}  // namespace testing

struct SwimConfig {
  // One member is probed a period. Lower finds crashes sooner and sends more small messages.
  Duration period = std::chrono::milliseconds(200);
  // A direct probe unanswered for this long goes to helpers; the period's end gives the verdict
  // "suspect". Raising it forgives slow peers and delays detection by as much.
  Duration ack_timeout = std::chrono::milliseconds(150);
  // How many others are asked to probe a silent member. More forgives bad single links.
  std::size_t indirect_probes = 3;
  // A suspect has at least suspicion_periods * max(1, log10 n) * period (and never less than
  // suspicion_floor) to object. Raising it forgives pauses and delays detection by as much.
  double suspicion_periods = 6.0;
  Duration suspicion_floor = std::chrono::milliseconds(1200);
  // With a single observer a suspect has this many times longer; the wait falls to the minimum as
  // others confirm.
  double suspicion_max_factor = 4.0;
  // Own lateness scales all waits by up to (1 + this). 0 trusts this machine to be on time.
  int health_cap = 8;
  // How many members get a change at once when it arrives, and how often a change is repeated
  // (times log10(n+1)) on later messages. Raising either spreads faster and costs bytes.
  std::size_t push_fanout = 3;
  double retransmit_factor = 4.0;
  // Full tables are exchanged with one random member this often (and at first contact).
  Duration sync_interval = std::chrono::seconds(30);
  // One dead member and one seed are tried again this often, jittered by a quarter: partitions of
  // any length heal.
  Duration dead_retry = std::chrono::seconds(30);
  // A dead or departed member is dropped from the table after this long.
  Duration forget_after = std::chrono::hours(24 * 7);
  // Gossip in one message; a full table is cut into several messages of this size.
  std::size_t max_message_bytes = 48 * 1024;
  // Members beyond this many are refused: bounds what a hostile member can make us store.
  std::size_t max_members = 4096;
  testing::Mutation mutation;
};

}  // namespace gpunode::membership
