#include "runtime/transport/detail/lane_loop.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/security/crypto.hpp"
#include "runtime/transport/detail/tcp.hpp"

namespace gpunode::transport::detail {

namespace {

constexpr std::size_t kTurnBytes = std::size_t{4} << 20;  // sent to one peer before the next

}  // namespace

std::uint64_t random_nonce() {
  std::uint64_t nonce = 0;
  while (nonce == 0) {
    auto bytes = security::random_array<8>();
    std::memcpy(&nonce, bytes.data(), sizeof nonce);
  }
  return nonce;
}

LaneLoop::LaneLoop(Lane lane, void* context, const ZmqLinkOptions& options,
                   const LinkEvents& events)
    : lane_(lane), context_(context), options_(options), events_(events) {}

Result<void> LaneLoop::listen(const std::vector<std::string>& endpoints) {
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

void LaneLoop::start() {
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

void LaneLoop::stop() {
  outbounds_.close();
  reactor_.stop([this] { close_all(); });
}

void LaneLoop::close_all() {
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

void LaneLoop::set_peer(const PeerAddress& address) {
  if (address.node == options_.node) return;
  auto outbound = outbounds_.add(address.node);
  if (!outbound) return;
  reactor_.post([this, address, outbound] {
    Peer& peer = peers_[address.node];
    bool other_key = peer.outbound && peer.address.curve_public_key != address.curve_public_key;
    if (other_key && peer.session) break_session(peer, true);
    bool elsewhere = peer.address.control_endpoints != address.control_endpoints ||
                     peer.address.bulk_endpoints != address.bulk_endpoints;
    peer.address = address;
    if ((other_key || elsewhere) && !peer.session) close_dial(peer);
    peer.outbound = outbound;
    peer.pause = options_.redial_min;
    if (!peer.session && !peer.dial) seek(peer);
  });
}

void LaneLoop::drop_peer(const NodeId& node) {
  if (!outbounds_.remove(node)) return;
  reactor_.post([this, node] {
    Peer* peer = find(node);
    if (!peer) return;
    if (peer->session) end_session(*peer);
    close_dial(*peer);
    discard(*peer->outbound);
    on_dropped(*peer);
    peers_.erase(node);
  });
}

Result<void> LaneLoop::send(const NodeId& to, Message message) {
  return outbounds_.send(
      lane_, to, std::move(message),
      [this](const Outbound& outbound, const Message& queued) {
        return can_queue(outbound, queued);
      },
      [this](const NodeId& node) { reactor_.post([this, node] { service_peer(node); }); });
}

LinkCounters LaneLoop::counters() const {
  return {sent_, received_, bytes_sent_, bytes_received_, dropped_};
}

Peer* LaneLoop::find(const NodeId& node) {
  auto found = peers_.find(node);
  return found == peers_.end() ? nullptr : &found->second;
}

void LaneLoop::report(const Peer& peer, LinkState state) {
  if (!closing_ && events_.on_state) events_.on_state(peer.address.node, lane_, state);
}

void LaneLoop::report_version(Peer& peer, std::uint16_t theirs) {
  if (closing_ || peer.other_major == theirs) return;
  peer.other_major = theirs;
  if (events_.on_other_version) {
    events_.on_other_version(peer.address.node, theirs, kProtocolMajor);
  }
}

// Sessions.

void LaneLoop::open_session(Peer& peer, Session session) {
  peer.session = std::move(session);
  peer.opened = reactor_.now();
  peer.pause = options_.redial_min;
  peer.refusals = 0;
  peer.other_major = 0;
  if (peer.session->source_fd >= 0) session_of_fd_[peer.session->source_fd] = peer.address.node;
  on_open(peer);
  {
    std::lock_guard lock(peer.outbound->mutex);
    peer.outbound->open = true;
    peer.outbound->accepting = true;  // before `up`: its reader may send at once
    peer.outbound->scheduled = true;
  }
  report(peer, LinkState::up);
  reactor_.post([this, node = peer.address.node] { service_peer(node); });
}

void LaneLoop::end_session(Peer& peer) {
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

void LaneLoop::break_session(Peer& peer, bool tell_peer) {
  if (tell_peer) {
    Envelope reset;
    reset.kind = Kind::reset;
    transmit(peer, reset, {}, {});
  }
  end_session(peer);
  report(peer, LinkState::reset);
  on_broken(peer);
}

void LaneLoop::take_session(Peer& peer, Incoming incoming) {
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
  if (envelope.kind != Kind::data) return on_internal(peer, envelope);
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
  if (events_.on_message) events_.on_message(peer.address.node, lane_, std::move(message));
}

// Sending.

Sent LaneLoop::send_all(Frames& frames, Socket& socket, const Bytes* route) {
  if (frames.empty()) return Sent::unroutable;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    Frames one;
    if (route) one.emplace_back(*route);
    one.push_back(std::move(frames[i]));
    Sent sent = socket.send(one);
    if (sent == Sent::yes) continue;
    return i == 0 ? sent : Sent::unroutable;  // half a message: the session is over
  }
  return Sent::yes;
}

Sent LaneLoop::transmit(Peer& peer, Envelope envelope, ByteView body, const SharedBytes& payload) {
  Session& session = *peer.session;
  bool counted = envelope.kind >= Kind::data && envelope.kind != Kind::reset;
  envelope.session = session.nonce;
  envelope.seq = counted ? session.seq_out + 1 : 0;
  envelope.boot = options_.boot;
  envelope.payload_bytes = payload.size();
  Frames frames = pack(envelope, body, payload);
  Sent sent = session.dialled ? send_all(frames, peer.dial->socket, nullptr)
                              : send_all(frames, inbox_, &session.route);
  if (sent == Sent::yes && counted) session.seq_out = envelope.seq;
  if (sent == Sent::yes && envelope.kind == Kind::data) {
    ++sent_;
    bytes_sent_ += body.size() + payload.size();
  }
  return sent;
}

bool LaneLoop::send_internal(Peer& peer, Envelope envelope) {
  if (!peer.session) return false;
  Sent sent = transmit(peer, std::move(envelope), {}, {});
  if (sent == Sent::unroutable) break_session(peer, false);
  return sent == Sent::yes;
}

LaneLoop::Flushed LaneLoop::flush(Peer& peer) {
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

void LaneLoop::service_peer(const NodeId& node) {
  Peer* peer = find(node);
  if (!peer) return;
  if (!peer->session) {
    {
      std::lock_guard lock(peer->outbound->mutex);
      peer->outbound->scheduled = false;
      if (peer->outbound->queue.empty()) return;
    }
    if (!peer->dial) seek(*peer);
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
