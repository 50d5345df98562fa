#include "runtime/transport/detail/control_lane.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/transport/detail/tcp.hpp"

namespace gpunode::transport::detail {

namespace {

constexpr std::size_t kMaxQueuedBytes = std::size_t{64} << 20;
constexpr std::size_t kTurnBytes = std::size_t{4} << 20;  // sent to one peer before the next

}  // namespace

Result<void> ControlLane::listen(const std::vector<std::string>& endpoints) {
  if (endpoints.empty()) return {};
  inbox_ = Socket(context_, ZMQ_ROUTER);
  if (!inbox_) return {ErrorCode::resource_exhausted, "ZeroMQ has no sockets left"};
  set_tcp_options(inbox_);
  inbox_.set(ZMQ_ROUTER_MANDATORY, 1);
  if (!inbox_.set(kZapEnforceDomain, 1)) {
    return {ErrorCode::internal, "this libzmq cannot enforce its ZAP domain"};
  }
  configure_inbox(inbox_);
  inbox_monitor_ = Monitor(context_, inbox_);
  for (const std::string& endpoint : endpoints) {
    auto bound = inbox_.bind(endpoint);
    if (!bound) return bound.error();
    endpoints_.push_back(*bound);
    if (auto target = parse_endpoint(*bound)) ports_.push_back(target->port);
  }
  return {};
}

void ControlLane::start() {
  if (inbox_) {
    reactor_.watch(inbox_.fd(), Reactor::Wanted::reading, [this] { service_inbox(); });
    auto hear = [this] {
      read_inbox_monitor();
      service_inbox();  // what came before the break still counts
      apply_disconnects();
    };
    reactor_.watch(inbox_monitor_.fd(), Reactor::Wanted::reading, hear);
    reactor_.post(hear);
  }
  reactor_.start();
}

void ControlLane::stop() {
  outbounds_.close();
  reactor_.stop([this] { close_all(); });
}

void ControlLane::close_all() {
  closing_ = true;
  for (auto& [node, peer] : peers_) {
    if (peer.session) end_session(peer);
    close_dial(peer);
    discard(*peer.outbound);
  }
  peers_.clear();
  while (!handshakes_.empty()) end_handshake(handshakes_.front().first);
  inbox_monitor_.stop(inbox_);
  inbox_.close();
}

void ControlLane::set_peer(const PeerAddress& address) {
  if (address.node == options_.node) return;
  auto outbound = outbounds_.add(address.node);
  if (!outbound) return;
  reactor_.post([this, address, outbound] {
    Peer& peer = peers_[address.node];
    bool other_key = peer.outbound && peer.address.curve_public_key != address.curve_public_key;
    if (other_key && peer.session) break_session(peer, true);
    bool elsewhere = peer.address.control_endpoints != address.control_endpoints;
    peer.address = address;
    if ((other_key || elsewhere) && !peer.session) close_dial(peer);
    peer.outbound = outbound;
    peer.attempts.hurry(options_.redial_min);
    if (!peer.session && !peer.dial) start_dial(peer);
  });
}

void ControlLane::drop_peer(const NodeId& node) {
  if (!outbounds_.remove(node)) return;
  reactor_.post([this, node] {
    Peer* peer = find(node);
    if (!peer) return;
    if (peer->session) end_session(*peer);
    close_dial(*peer);
    discard(*peer->outbound);
    if (bulk_.on_control) bulk_.on_control(node, false, 0);
    peers_.erase(node);
  });
}

Result<void> ControlLane::send(const NodeId& to, Message message) {
  return outbounds_.send(
      Lane::control, to, std::move(message),
      [this](const Outbound& outbound, const Message&) {
        return outbound.queue.size() < options_.control_queue && outbound.bytes < kMaxQueuedBytes;
      },
      [this](const NodeId& node) { reactor_.post([this, node] { service_peer(node); }); });
}

void ControlLane::post_envelope(const NodeId& to, const Envelope& envelope) {
  reactor_.post([this, to, envelope] {
    Peer* peer = find(to);
    if (peer && send_internal(*peer, envelope)) service_peer(to);
  });
}

LinkCounters ControlLane::counters() const {
  return {sent_, received_, bytes_sent_, bytes_received_, dropped_};
}

ControlLane::Peer* ControlLane::find(const NodeId& node) {
  auto found = peers_.find(node);
  return found == peers_.end() ? nullptr : &found->second;
}

void ControlLane::report(const Peer& peer, LinkState state) {
  if (!closing_ && events_.on_state) events_.on_state(peer.address.node, Lane::control, state);
}

void ControlLane::report_version(Peer& peer, std::uint16_t theirs) {
  if (closing_ || peer.other_major == theirs) return;
  peer.other_major = theirs;
  if (events_.on_other_version) {
    events_.on_other_version(peer.address.node, theirs, kProtocolMajor);
  }
}

// Sessions.

void ControlLane::open_session(Peer& peer, Session session) {
  peer.session = std::move(session);
  peer.opened = reactor_.now();
  peer.attempts.on_opened(options_.redial_min);
  peer.other_major = 0;
  if (peer.session->source_fd >= 0) session_of_fd_[peer.session->source_fd] = peer.address.node;
  if (bulk_.on_control) bulk_.on_control(peer.address.node, true, peer.seen_boot);
  open(*peer.outbound);  // before `up`: its reader may send at once
  report(peer, LinkState::up);
  reactor_.post([this, node = peer.address.node] { service_peer(node); });
}

void ControlLane::end_session(Peer& peer) {
  Session ended = std::move(*peer.session);
  peer.session.reset();
  if (ended.dialled) {
    close_dial(peer);
  } else {
    auto found = session_of_fd_.find(ended.source_fd);
    if (found != session_of_fd_.end() && found->second == peer.address.node) {
      session_of_fd_.erase(found);
    }
    if (ended.own_fd >= 0) {
      ::shutdown(ended.own_fd, SHUT_RDWR);
      ::close(ended.own_fd);
    }
  }
  discard(*peer.outbound);
}

void ControlLane::break_session(Peer& peer, bool tell_peer) {
  if (tell_peer) {
    Envelope reset;
    reset.kind = Kind::reset;
    transmit(peer, reset, {}, {});
  }
  end_session(peer);
  report(peer, LinkState::reset);
  on_broken(peer);
}

void ControlLane::on_broken(Peer& peer) {
  if (bulk_.on_control) bulk_.on_control(peer.address.node, false, 0);
  // A session that broke as soon as it was open is not tried again at once.
  if (reactor_.now() - peer.opened < std::chrono::seconds(1))
    schedule_redial(peer);
  else
    start_dial(peer);
}

void ControlLane::take_session(Peer& peer, Incoming incoming) {
  const Envelope& envelope = incoming.envelope;
  Session& session = *peer.session;
  if (envelope.session != session.nonce) {
    ++dropped_;
    return;
  }
  if (envelope.kind == Kind::reset) return break_session(peer, false);
  if (envelope.kind < Kind::data) return;
  if (envelope.seq != session.seq_in + 1) {
    ++dropped_;
    return break_session(peer, true);
  }
  session.seq_in = envelope.seq;
  if (envelope.kind != Kind::data) {
    if (bulk_.on_envelope) bulk_.on_envelope(peer.address.node, envelope);
    return;
  }
  ++received_;
  std::uint64_t bytes = incoming.body.size() + incoming.payload.size();
  bytes_received_ += bytes;
  if (envelope.topic == 0 || envelope.topic > static_cast<std::uint16_t>(Topic::admission)) {
    ++dropped_;  // of a later version than ours
    return;
  }
  Message message;
  message.topic = static_cast<Topic>(envelope.topic);
  message.stream = envelope.stream;
  message.body = std::move(incoming.body);
  message.payload = std::move(incoming.payload);
  if (events_.on_message) events_.on_message(peer.address.node, Lane::control, std::move(message));
}

// Sending.

// One frame is one message: libzmq 4.3.4 aborts the process when a connection dies while a socket
// with half of a multipart message under way is being closed (session_base.cpp, clean_pipes).
Sent ControlLane::send_frame(Frame frame, Socket& socket, const Bytes* route) {
  Frames parts;
  if (route) parts.emplace_back(*route);
  parts.push_back(std::move(frame));
  return socket.send(parts);
}

Sent ControlLane::transmit(Peer& peer, Envelope envelope, ByteView body,
                           const SharedBytes& payload) {
  Session& session = *peer.session;
  bool counted = envelope.kind >= Kind::data && envelope.kind != Kind::reset;
  envelope.session = session.nonce;
  envelope.seq = counted ? session.seq_out + 1 : 0;
  envelope.boot = options_.boot;
  envelope.payload_bytes = payload.size();
  Frame frame = pack(envelope, body, payload);
  Sent sent = session.dialled ? send_frame(std::move(frame), peer.dial->socket, nullptr)
                              : send_frame(std::move(frame), inbox_, &session.route);
  if (sent == Sent::yes && counted) session.seq_out = envelope.seq;
  if (sent == Sent::yes && envelope.kind == Kind::data) {
    ++sent_;
    bytes_sent_ += body.size() + payload.size();
  }
  return sent;
}

bool ControlLane::send_internal(Peer& peer, Envelope envelope) {
  if (!peer.session) return false;
  Sent sent = transmit(peer, std::move(envelope), {}, {});
  if (sent == Sent::unroutable) break_session(peer, false);
  return sent == Sent::yes;
}

ControlLane::Flushed ControlLane::flush(Peer& peer) {
  for (std::size_t bytes = 0; bytes < kTurnBytes;) {
    Message message;
    {
      std::lock_guard lock(peer.outbound->mutex);
      if (peer.outbound->queue.empty()) {
        peer.outbound->scheduled = false;
        return Flushed::all;
      }
      message = peer.outbound->queue.take();
    }
    Envelope envelope;
    envelope.kind = Kind::data;
    envelope.topic = static_cast<std::uint16_t>(message.topic);
    envelope.stream = message.stream;
    Sent sent = transmit(peer, envelope, message.body, message.payload);
    if (sent == Sent::yes) {
      peer.outbound->bytes -= size_of(message);
      bytes += size_of(message) + 64;
      continue;
    }
    std::lock_guard lock(peer.outbound->mutex);
    peer.outbound->queue.put_back(std::move(message));
    return sent == Sent::would_block ? Flushed::blocked : Flushed::broken;
  }
  reactor_.post([this, node = peer.address.node] { service_peer(node); });
  return Flushed::all;  // for this turn
}

void ControlLane::service_peer(const NodeId& node) {
  Peer* peer = find(node);
  if (!peer) return;
  if (!peer->session) {
    {
      std::lock_guard lock(peer->outbound->mutex);
      peer->outbound->scheduled = false;
      if (peer->outbound->queue.empty()) return;
    }
    if (!peer->dial) start_dial(*peer);
    return;
  }
  Flushed flushed = flush(*peer);
  if (flushed == Flushed::broken) return break_session(*peer, false);
  if (!peer->session->dialled) {
    // A ROUTER does not say when one of its pipes has room again.
    if (flushed == Flushed::blocked) {
      reactor_.after(std::chrono::milliseconds(1), [this, node] { service_peer(node); });
    }
    if (inbox_.events() & ZMQ_POLLIN) service_inbox();
    return;
  }
  service_dial(node, peer->dial->id);
}

}  // namespace gpunode::transport::detail
