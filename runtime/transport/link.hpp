// Link: how a node's messages reach other nodes. The interface; mesh_link is the one over the
// network, tests/support/memory_link its twin in one process, and both pass the same tests.
//
// Two lanes: control (small, latency first) and bulk (gradients, state, checkpoints; never delays
// control). Inside a lane the messages of one urgency to one peer arrive in the order of sending or
// not at all: a break loses what was in flight, and is reported through on_state before anything
// newer arrives. On bulk the more urgent overtake the others, and messages may have an order.
// A bulk session is opened by the first message to be sent, or by many calls that would be sooner
// there with one; control must be up, later messages wait.
// A peer is who its key says: `from` is proven by the link, never read from a message.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/peer.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::transport {

enum class Lane : std::uint8_t { control, bulk };

// Limits of one message; more has to be cut into chunks.
inline constexpr std::size_t kMaxBodyBytes = 256u << 10;
inline constexpr std::size_t kMaxBulkPayloadBytes = 16u << 20;
inline constexpr std::size_t kMaxControlPayloadBytes = 1u << 20;

// What a message is about; the receiver's first switch. Append only: the numbers are on the wire.
enum class Topic : std::uint16_t {
  membership = 1,  // datagrams of gossip; may be lost
  directory = 2,   // anti-entropy of the replicated map; may be lost
  call = 3,        // request of one node's actor to another's
  reply = 4,       // its answer
  job = 5,         // views, votes, exchange, state transfer of the job named by `stream`
  admission = 6,   // admit records; join frames relayed to the issuer of a token
};

// Votes and questions are waited for by all, what a step exchanges by its members, a learner's
// state by nobody else.
enum class Urgency : std::uint8_t { high, normal, low };

struct Message {
  Topic topic = Topic::membership;
  std::uint64_t stream = 0;  // call id, or the low half of the JobId
  Bytes body = {};           // small header, aligned for FlatBuffers; at most 256 KiB
  SharedBytes payload = {};  // bulk part, sent without a copy; at most 16 MiB; may be empty
  Urgency urgency = Urgency::normal;
  // Of those of one urgency, peer and stream that wait to be sent on bulk, the lower goes first,
  // and of equal ones only one waits. One of order 0 is not overtaken, nor taken for another.
  std::uint64_t order = 0;
};

// What is known of a message whose payload is still to be read.
struct MessageHead {
  Topic topic = Topic::membership;
  std::uint64_t stream = 0;
  ByteView body;
  std::size_t payload_bytes = 0;
};

// Where a peer can be reached and which keys prove it.
struct PeerAddress {
  NodeId node;
  std::uint64_t boot = 0;
  std::vector<std::string> control_endpoints;  // "tcp://10.0.0.5:7601", in order of preference
  std::vector<std::string> bulk_endpoints;     // empty for a peer that only dials
  std::array<std::byte, 32> curve_public_key{};
};

// Why a frame of a peer was thrown away: it is none that the link protocol knows; is of a session that is
// over, or was never opened, of which an honest peer has some under way when a session breaks; or would open
// one more session than a peer may in that time.
// A later program's message, of a topic that this one does not know, is dropped too.
enum class Dropped { unreadable, out_of_session, too_often, of_later_version };

// Called on the link's own threads; must not block and must not call back into close().
struct LinkEvents {
  std::function<void(const NodeId& from, Lane lane, Message message)> on_message;
  std::function<void(const NodeId& peer, Lane lane, LinkState state)> on_state;
  // The peer's major version of the link protocol is not ours: no session is opened while it stays
  // so. Told once for each version that is seen; both ends are told.
  std::function<void(const NodeId& peer, std::uint16_t theirs, std::uint16_t ours)>
      on_other_version = {};
  // Asked where a long payload on bulk is to be read to; a link may do without. Empty, or of
  // another length: to the link's own memory. A session that breaks leaves what was lent half
  // written.
  std::function<WritableBytes(const NodeId& from, const MessageHead& head)> memory_for = {};
  // Asked before a message of the peer is read on bulk; a link may do without. False: its connection
  // is left alone for a millisecond, so that the peer has to wait; those of others are read.
  std::function<bool(const NodeId& from)> may_read = {};
  // Of each; a link may do without.
  std::function<void(const NodeId& from, Dropped why)> on_dropped = {};
};

struct LinkCounters {
  std::uint64_t frames_sent = 0, frames_received = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t frames_dropped = 0;  // bad, late or over a limit; thrown away unparsed
};

struct CurveKeyPair {
  std::array<std::byte, 32> open{}, secret{};
};

// What a link proves itself by. A peer that refuses the first is told the one before, in turn: it
// may not have heard of the change, and hears of it over the session that this opens.
struct LinkKeys {
  CurveKeyPair now;
  std::optional<CurveKeyPair> before = {};
};

class Link {
 public:
  virtual ~Link() = default;

  // Makes the peer reachable, or replaces its addresses; dials in the background.
  virtual void set_peer(PeerAddress address) = 0;
  // Forgets the peer and closes its sessions; its frames are no longer accepted.
  virtual void drop_peer(const NodeId& node) = 0;

  // Takes other keys for its own: every session is closed and opened anew under them. A link
  // without keys has nothing to do.
  virtual void use_keys(const LinkKeys&) {}

  // Queues a message and returns at once, from any thread. Fails with: not_found (unknown peer),
  // unavailable (no session; on_state tells when one is up), resource_exhausted (too much queued
  // for this peer), invalid_argument (over a size limit). After a failure nothing was sent.
  virtual Result<void> send(const NodeId& to, Lane lane, Message message) = 0;

  // The same for what somebody waits for, on the lane by which it is there sooner, which is told:
  // bulk for what is long, or where a sealed session is up and has little to send; else control.
  virtual Result<Lane> send_soon(const NodeId& to, Message message) = 0;

  virtual LinkCounters counters(Lane lane) const = 0;

  // Stops intake, closes the sockets in their threads, joins the threads. No event comes after it.
  virtual void close() = 0;
};

}  // namespace gpunode::transport
