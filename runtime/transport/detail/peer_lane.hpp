// PeerLane: what both lanes of a MeshLink do alike. Who the peers are, where and when again they
// are dialled, what waits for them, which hello is the newest, and what is counted. Base of
// ControlLane and BulkLane, which know how a session opens and what flows in it. Each lane has a
// thread and a table of peers of its own: shared ones would let bulk delay control.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "runtime/transport/detail/dial_attempts.hpp"
#include "runtime/transport/detail/envelope_codec.hpp"
#include "runtime/transport/detail/limits.hpp"
#include "runtime/transport/detail/outbox.hpp"
#include "runtime/transport/detail/reactor.hpp"
#include "runtime/transport/mesh_link.hpp"

namespace gpunode::transport::detail {

// A peer on a lane. The lane's own struct derives from it and adds its `session`.
struct LanePeer {
  PeerAddress address;
  std::shared_ptr<Outbox> outbox;
  DialAttempts attempts;
  bool redial_pending = false;
  std::uint64_t seen_boot = 0;      // of its newest hello or welcome
  std::uint64_t seen_greeting = 0;  // the same, its number
};

// Which lane it is, and what differs in data.
struct LaneKind {
  Lane lane;
  std::vector<std::string> PeerAddress::*endpoints;
  Outbox::Limits limits;
};

template <class Peer>
class PeerLane {
 public:
  virtual ~PeerLane() = default;

  // Any thread.
  void set_peer(const PeerAddress& address);
  void drop_peer(const NodeId& node);
  Result<void> send(const NodeId& to, Message message);
  LinkCounters counters() const {
    return {sent_, received_, bytes_sent_, bytes_received_, dropped_};
  }

 protected:
  PeerLane(LaneKind kind, const MeshLinkOptions& options, const LinkEvents& events)
      : kind_(kind), options_(options), events_(events) {}

  // What the lane adds. From here on all runs on its thread, but where it says otherwise.
  virtual bool is_idle(const Peer& peer) const = 0;  // no session, and none under way
  virtual void seek(Peer& peer) = 0;                 // opens one if there is cause to
  virtual void close_dial(Peer& peer) = 0;
  virtual void end_session(Peer& peer) = 0;
  virtual void break_session(Peer& peer, bool tell_peer) = 0;
  virtual void forget(Peer& peer) = 0;  // before it goes
  virtual void service_peer(const NodeId& node) = 0;

  Peer* find(const NodeId& node) {
    auto found = peers_.find(node);
    return found == peers_.end() ? nullptr : &found->second;
  }
  // Any thread; null: not a peer.
  std::shared_ptr<Outbox> find_outbox(const NodeId& node) const {
    std::lock_guard lock(mutex_);
    auto found = outboxes_.find(node);
    return found == outboxes_.end() ? nullptr : found->second;
  }
  const std::vector<std::string>& endpoints_of(const Peer& peer) const {
    return peer.address.*kind_.endpoints;
  }
  void report(const Peer& peer, LinkState state) {
    if (!closing_ && events_.on_state) events_.on_state(peer.address.node, kind_.lane, state);
  }
  // A frame of the peer is thrown away. Null: of nobody whom we know.
  void drop(const Peer* from, Dropped why) {
    ++dropped_;
    if (from && !closing_ && events_.on_dropped) events_.on_dropped(from->address.node, why);
  }
  // Counts a dial that came to nothing; once every address has refused, that is reported.
  void note_failed_dial(Peer& peer, bool refused) {
    if (peer.attempts.on_failed(refused, endpoints_of(peer).size()))
      report(peer, LinkState::refused);
  }
  void redial_later(Peer& peer) {
    if (peer.redial_pending || closing_) return;
    peer.redial_pending = true;
    const Duration pause = peer.attempts.next_pause(endpoints_of(peer).size(), options_.redial_max);
    reactor_.after(pause, [this, node = peer.address.node] {
      Peer* waiting = find(node);
      if (!waiting) return;
      waiting->redial_pending = false;
      if (is_idle(*waiting)) seek(*waiting);
    });
  }
  // A hello, welcome or not_yet of ours.
  Envelope greeting(Kind kind, std::uint64_t session) {
    return {.kind = kind, .session = session, .boot = options_.boot, .greeting = ++greetings_};
  }
  // Takes note of a hello. False: it was overtaken by a later one, and must not undo that.
  bool is_newest(Peer& peer, const Envelope& hello) {
    if (hello.boot < peer.seen_boot ||
        (hello.boot == peer.seen_boot && hello.greeting <= peer.seen_greeting))
      return false;
    peer.seen_boot = hello.boot;
    peer.seen_greeting = hello.greeting;
    return true;
  }
  void note_welcome(Peer& peer, const Envelope& welcome) {
    peer.seen_boot = std::max(peer.seen_boot, welcome.boot);
    peer.seen_greeting = welcome.greeting;
  }
  static Envelope data_envelope(const Message& message) {
    return {.kind = Kind::data,
            .topic = static_cast<std::uint16_t>(message.topic),
            .stream = message.stream,
            .payload_bytes = message.payload.size()};
  }
  void note_sent(const Message& message) {
    ++sent_;
    bytes_sent_ += size_of(message);
  }
  void deliver(const Peer& peer, WireMessage data);

  void close_intake() {
    std::lock_guard lock(mutex_);
    intake_closed_ = true;
    outboxes_.clear();
  }
  void close_peers() {
    closing_ = true;
    for (auto& [node, peer] : peers_) {
      if (peer.session) end_session(peer);
      close_dial(peer);
      peer.outbox->reset();
    }
    peers_.clear();
  }

  const LaneKind kind_;
  const MeshLinkOptions& options_;
  const LinkEvents& events_;
  Reactor reactor_;
  std::map<NodeId, Peer> peers_;
  std::uint64_t greetings_ = 0;  // of ours, numbered as they go out
  bool closing_ = false;
  std::atomic<std::uint64_t> sent_{0}, received_{0}, bytes_sent_{0}, bytes_received_{0};
  std::atomic<std::uint64_t> dropped_{0};

 private:
  mutable std::mutex mutex_;
  std::unordered_map<NodeId, std::shared_ptr<Outbox>> outboxes_;
  std::atomic<bool> intake_closed_{false};
};

template <class Peer>
void PeerLane<Peer>::set_peer(const PeerAddress& address) {
  if (address.node == options_.node) return;
  std::shared_ptr<Outbox> outbox;
  {
    std::lock_guard lock(mutex_);
    if (intake_closed_) return;
    auto& kept = outboxes_[address.node];
    if (!kept) kept = std::make_shared<Outbox>(kind_.limits);
    outbox = kept;
  }
  reactor_.post([this, address, outbox] {
    Peer& peer = peers_[address.node];
    const bool other_key = peer.outbox && peer.address.curve_public_key != address.curve_public_key;
    // A session stays where it is if only the address is new: it proves that the old one works.
    if (other_key && peer.session) break_session(peer, true);
    const bool elsewhere = endpoints_of(peer) != address.*kind_.endpoints;
    peer.address = address;
    if ((other_key || elsewhere) && !peer.session) close_dial(peer);
    peer.outbox = outbox;
    peer.attempts.hurry(options_.redial_min);
    if (is_idle(peer)) seek(peer);
  });
}

template <class Peer>
void PeerLane<Peer>::drop_peer(const NodeId& node) {
  {
    std::lock_guard lock(mutex_);
    if (outboxes_.erase(node) == 0) return;
  }
  reactor_.post([this, node] {
    Peer* peer = find(node);
    if (!peer) return;
    if (peer->session) end_session(*peer);
    close_dial(*peer);
    peer->outbox->reset();
    forget(*peer);
    peers_.erase(node);
  });
}

template <class Peer>
Result<void> PeerLane<Peer>::send(const NodeId& to, Message message) {
  const std::shared_ptr<Outbox> outbox = find_outbox(to);
  if (!outbox && intake_closed_) return {ErrorCode::unavailable, "the link is closed"};
  if (!outbox) return {ErrorCode::not_found, "node " + to.short_text() + " is not a peer"};
  if (auto fits = check_limits(kind_.lane, message); !fits) return fits;
  auto wakes = outbox->push(to, std::move(message));
  if (!wakes) return wakes.error();
  if (*wakes) reactor_.post([this, to] { service_peer(to); });
  return {};
}

template <class Peer>
void PeerLane<Peer>::deliver(const Peer& peer, WireMessage data) {
  ++received_;
  bytes_received_ += data.body.size() + data.payload.size();
  const Envelope& envelope = data.envelope;
  if (envelope.topic == 0 || envelope.topic > static_cast<std::uint16_t>(Topic::admission)) {
    drop(&peer, Dropped::of_later_version);
    return;
  }
  if (!events_.on_message) return;
  events_.on_message(peer.address.node, kind_.lane,
                     {static_cast<Topic>(envelope.topic), envelope.stream, std::move(data.body),
                      std::move(data.payload)});
}

}  // namespace gpunode::transport::detail
