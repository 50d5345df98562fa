// MeshLink: the link between nodes. Two lanes, each a thread that owns its sockets: control over
// ZeroMQ (CURVE), and bulk over bare TCP (a one-time ticket that was agreed over control, then
// frames sealed with AES-256-GCM). A gradient goes send() here -> detail/peer_lane.hpp (send) ->
// detail/outbox.cpp (waits) -> detail/bulk_lane.cpp (flush) -> detail/bulk_stream.cpp (sealed, to
// the socket).
//
// One connection a peer and lane is one session, dialled by either side; it carries both
// directions. A break ends the session: on_state(reset), then the side that has an address dials
// anew. A peer is the key that ZAP accepted, whatever its frames say. ZeroMQ's context is shared by
// all links of the process and is never terminated (libzmq 4.3.4 has bugs there).
// Revoking a key is drop_peer() plus an `admit` that answers revoked: ZAP only judges new knocks.
// Costs: two threads a link (a third once a bulk address is a name), ZeroMQ's I/O thread a process,
// one copy of each body.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/ip_address.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::transport {

using CurveKey = std::array<std::byte, 32>;

// The answer of the allow-list about a CURVE key that knocks.
struct KeyVerdict {
  enum class Answer : std::uint8_t {
    accepted,
    unknown,  // perhaps its admission has not reached us yet: it may try again
    revoked   // never again, and it is told
  };
  Answer answer = Answer::unknown;
  NodeId node;  // of an accepted key
};

struct MeshLinkOptions {
  NodeId node;
  Boot boot = 0;
  CurveKey curve_public_key{};
  CurveKey curve_secret_key{};
  std::optional<CurveKeyPair> curve_before = {};  // LinkKeys::before
  // "tcp://0.0.0.0:7601"; port 0 takes a free one; empty: this node only dials.
  std::vector<std::string> control_listen;
  std::vector<std::string> bulk_listen;
  // Where those who dial may come from, this machine apart; without a range: from anywhere.
  IpRanges allowed = {};
  // Bulk frames travel unsealed to peers that allow it too. Trusts all who can read or inject on
  // the network between; default off.
  bool bulk_plain = false;
  // Asked on the ZAP thread for every knock; must be quick, thread-safe and never block.
  std::function<KeyVerdict(const CurveKey&)> admit;
  // Messages that may wait for one peer on control before send answers resource_exhausted.
  std::size_t control_queue = 10'000;
  // Bytes that may wait for one peer on bulk. Payloads wait where their owner keeps them, until the
  // kernel has taken them; sealed, the one that is being sent is held by the link itself.
  std::size_t bulk_budget_bytes = std::size_t{64} << 30;
  // Pause between dials of a peer that cannot be reached: the first, and the longest.
  Duration redial_min = std::chrono::milliseconds(100);
  Duration redial_max = std::chrono::seconds(5);
};

namespace detail {
class BulkLane;
class ControlLane;
}  // namespace detail

class MeshLink final : public Link {
 public:
  // Binds, starts the threads and proves that an unknown key is kept out before it returns.
  // Fails with: already_exists (a port is taken; names it), invalid_argument (an endpoint that
  // cannot be bound), internal (ZeroMQ without CURVE, or the self-test let a stranger in).
  static Result<std::unique_ptr<MeshLink>> open(MeshLinkOptions options, LinkEvents events);
  ~MeshLink() override;

  void set_peer(PeerAddress address) override;
  void drop_peer(const NodeId& node) override;
  void use_keys(const LinkKeys& keys) override;
  Result<void> send(const NodeId& to, Lane lane, Message message) override;
  Result<Lane> send_soon(const NodeId& to, Message message) override;
  LinkCounters counters(Lane lane) const override;
  void close() override;

  // What was bound, with the true port numbers; "tcp://0.0.0.0:7601".
  const std::vector<std::string>& control_endpoints() const;
  const std::vector<std::string>& bulk_endpoints() const;

 private:
  MeshLink(MeshLinkOptions options, LinkEvents events);

  const MeshLinkOptions options_;
  const LinkEvents events_;
  // Behind pointers: their headers name ZeroMQ, and whoever opens a link should not read them.
  std::unique_ptr<detail::ControlLane> control_;
  std::unique_ptr<detail::BulkLane> bulk_;
};

}  // namespace gpunode::transport
