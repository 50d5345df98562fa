// What is known of another node: what the failure detector says of its life, and what the link
// layer saw of its connections. One enum each, the same in every module, on the wire and in what
// people read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpunode {

enum class PeerHealth : std::uint8_t { alive, suspect, dead, left };

constexpr std::string_view to_string(PeerHealth health) {
  constexpr std::string_view kNames[] = {"alive", "suspect", "dead", "left"};
  return kNames[static_cast<std::size_t>(health)];
}

enum class LinkState : std::uint8_t {
  up,       // a session to the peer is open
  reset,    // the session broke, or on bulk could not be opened; what was in flight is lost
  refused,  // dialling again was answered by a refusal, not by silence: nothing listens there
  shut_out  // it answers that this node was put out of the cluster
};

}  // namespace gpunode
