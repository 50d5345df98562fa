// The control lane's sessions, and what is sent and taken in them.
#include "runtime/transport/detail/control_lane.hpp"

#include <sys/socket.h>

#include "runtime/security/crypto.hpp"
#include "runtime/transport/detail/control_frame.hpp"

namespace gpunode::transport::detail {

namespace {

// More than a short call takes there and back, so that the next one in a row meets it.
constexpr Duration kSpin = std::chrono::microseconds(150);
constexpr std::size_t kMaxQueuedBytes = std::size_t{64} << 20;
constexpr std::size_t kTurnBytes = std::size_t{4} << 20;  // sent to one peer before the next
constexpr std::size_t kMessageCost = 64;                  // so that empty ones end a turn too
// Of a mebibyte each, at most.
constexpr security::AddressQuota::Limits kHandshakes{
    .all = 128, .of_address = 48, .of_network = 64};

// Sessions that a peer may open; beyond it, honest ones that cannot keep any come again later.
constexpr security::RateLimit::Options kOpenings{.burst = 40, .per_second = 4};

}  // namespace

ControlLane::ControlLane(const MeshLinkOptions& options, const LinkEvents& events, Bulk bulk)
    : PeerLane({Lane::control,
                &PeerAddress::control_endpoints,
                {options.control_queue, kMaxQueuedBytes}},
               options, events),
      bulk_(std::move(bulk)),
      door_(options),
      keys_{{options.curve_public_key, options.curve_secret_key}, options.curve_before},
      handshake_quota_(kHandshakes, security::random_nonce()),
      hellos_(kOpenings),
      bulk_openings_(kOpenings) {}

Result<void> ControlLane::listen(const std::vector<std::string>& endpoints) {
  if (endpoints.empty()) return {};
  endpoints_ = endpoints;
  if (auto opened = open_inbox(endpoints_); !opened) return opened;
  for (const std::string& bound : endpoints_)
    if (auto target = parse_endpoint(bound)) ports_.push_back(target->port);
  return {};
}

void ControlLane::start() {
  if (inbox_) watch_inbox();
  reactor_.spin_up_to(kSpin);
  reactor_.start();
}

void ControlLane::use_keys(const LinkKeys& keys) {
  reactor_.post([this, keys] {
    keys_ = keys;
    std::vector<NodeId> nodes;
    for (const auto& [node, peer] : peers_) nodes.push_back(node);
    for (const NodeId& node : nodes) {
      ControlPeer& peer = *find(node);
      peer.older_key = false;
      close_dial(peer);  // one that is under way; a session's own goes with it
      if (peer.session) break_session(peer, false);
      peer.attempts.hurry(options_.redial_min);
      if (is_idle(peer) && !peer.redial_pending) seek(peer);
    }
    if (inbox_) close_inbox();
    if (!endpoints_.empty()) open_inbox_again();
  });
}

void ControlLane::stop() {
  close_intake();
  reactor_.stop([this] {
    close_peers();
    if (inbox_) close_inbox();
  });
}

Result<void> ControlLane::test_door() const {
  return endpoints_.empty() ? Result<void>() : door_.test(reachable(endpoints_.front()));
}

void ControlLane::post_envelope(const NodeId& to, const Envelope& envelope) {
  reactor_.post([this, to, envelope] {
    ControlPeer* peer = find(to);
    if (!peer || !peer->session) return;
    if (peer->session->wire->send(envelope, {}, {}) == Sent::unroutable)
      return break_session(*peer, false);
    service_peer(to);
  });
}

// Sessions.

void ControlLane::report_version(ControlPeer& peer, std::uint16_t theirs) {
  if (closing_ || peer.other_major == theirs) return;
  peer.other_major = theirs;
  if (events_.on_other_version) events_.on_other_version(peer.address.node, theirs, kProtocolMajor);
}

void ControlLane::open_session(ControlPeer& peer, ControlSession session) {
  peer.session = std::move(session);
  peer.opened = reactor_.now();
  peer.older_key = peer.shut_out = false;
  peer.attempts.on_opened(options_.redial_min);
  peer.other_major = 0;
  if (peer.session->source_fd >= 0) session_of_fd_[peer.session->source_fd] = peer.address.node;
  bulk_.on_control(peer.address.node, true, peer.seen_boot);
  peer.outbox->open(direct_way(peer));  // before `up`: its reader may send at once
  report(peer, LinkState::up);
  reactor_.post([this, node = peer.address.node] { service_peer(node); });
}

void ControlLane::end_session(ControlPeer& peer) {
  const ControlSession ended = std::move(*peer.session);
  peer.session.reset();
  if (ended.dialled) {
    close_dial(peer);
  } else {
    auto found = session_of_fd_.find(ended.source_fd);
    if (found != session_of_fd_.end() && found->second == peer.address.node)
      session_of_fd_.erase(found);
    if (ended.connection) ::shutdown(*ended.connection, SHUT_RDWR);
  }
  peer.outbox->reset();
}

void ControlLane::break_session(ControlPeer& peer, bool tell_peer) {
  if (tell_peer) (void)peer.session->wire->send({.kind = Kind::reset}, {}, {});
  end_session(peer);
  report(peer, LinkState::reset);
  on_broken(peer);
}

void ControlLane::on_broken(ControlPeer& peer) {
  bulk_.on_control(peer.address.node, false, 0);
  // A session that broke as soon as it was open is not tried again at once.
  if (reactor_.now() - peer.opened < std::chrono::seconds(1))
    redial_later(peer);
  else
    seek(peer);
}

void ControlLane::take_session(ControlPeer& peer, WireMessage message) {
  const Envelope& envelope = message.envelope;
  ControlSession& session = *peer.session;
  if (envelope.session != session.wire->nonce()) return drop(&peer, Dropped::out_of_session);
  if (envelope.kind == Kind::reset) return break_session(peer, false);
  if (envelope.kind < Kind::data) return drop(&peer, Dropped::out_of_session);
  // ZeroMQ goes on after it has lost messages; a gap is how that is seen.
  if (envelope.seq != session.seq_in + 1) {
    drop(&peer, Dropped::out_of_session);
    return break_session(peer, true);
  }
  session.seq_in = envelope.seq;
  if (envelope.kind != Kind::data) {
    if (!bulk_openings_.allow(as_text(peer.address.node.value), reactor_.now()))
      return drop(&peer, Dropped::too_often);
    return bulk_.on_envelope(peer.address.node, envelope);
  }
  deliver(peer, std::move(message));
}

// Sending.

// One that finds the queue empty. What came in meanwhile is for the lane's thread to read.
Outbox::Direct ControlLane::direct_way(const ControlPeer& peer) {
  return [this, wire = peer.session->wire](const Message& message) {
    if (wire->send(data_envelope(message), message.body, message.payload.view) != Sent::yes)
      return false;
    note_sent(message);
    SharedSocket& socket = wire->socket();
    if ((socket.events() & ZMQ_POLLIN) && !socket.look_posted.exchange(true))
      reactor_.post([wire] {
        wire->socket().look_posted = false;
        wire->socket().look();
      });
    return true;
  };
}

ControlLane::Flushed ControlLane::flush(ControlPeer& peer) {
  for (std::size_t bytes = 0; bytes < kTurnBytes;) {
    std::optional<Message> message = peer.outbox->take();
    if (!message) return Flushed::all;
    const Sent sent =
        peer.session->wire->send(data_envelope(*message), message->body, message->payload.view);
    if (sent != Sent::yes) {
      peer.outbox->put_back(std::move(*message));
      return sent == Sent::would_block ? Flushed::blocked : Flushed::broken;
    }
    note_sent(*message);
    bytes += size_of(*message) + kMessageCost;
  }
  reactor_.post([this, node = peer.address.node] { service_peer(node); });
  return Flushed::all;  // for this turn
}

void ControlLane::service_peer(const NodeId& node) {
  ControlPeer* peer = find(node);
  if (!peer || !peer->session) return;  // the outbox takes nothing without a session
  const Flushed flushed = flush(*peer);
  if (flushed == Flushed::broken) return break_session(*peer, false);
  // ZMQ_FD tells of changes alone, and sending takes note of them: what came must be read now.
  if (peer->session->dialled) return service_dial(node, peer->dial->id);
  // A ROUTER does not say when one of its pipes has room again.
  if (flushed == Flushed::blocked)
    reactor_.after(std::chrono::milliseconds(1), [this, node] { service_peer(node); });
  if (inbox_ && (inbox_->events() & ZMQ_POLLIN)) service_inbox();
}

}  // namespace gpunode::transport::detail
