// The dialling half of the control lane: one DEALER a dialled peer, its monitor, pauses between
// attempts.
#include <algorithm>
#include <cerrno>

#include "runtime/security/crypto.hpp"
#include "runtime/transport/detail/control_lane.hpp"
#include "runtime/transport/detail/tcp.hpp"

namespace gpunode::transport::detail {

namespace {

constexpr int kBatch = 256;
constexpr std::size_t kMaxParts = 2;
constexpr Duration kDialDeadline = std::chrono::seconds(3);

}  // namespace

ControlLane::Dial* ControlLane::current(const NodeId& node, std::uint64_t dial_id) {
  Peer* peer = find(node);
  return peer && peer->dial && peer->dial->id == dial_id ? peer->dial.get() : nullptr;
}

void ControlLane::start_dial(Peer& peer) {
  const auto& endpoints = peer.address.control_endpoints;
  if (endpoints.empty() || peer.dial) return;
  auto dial = std::make_unique<Dial>();
  dial->id = next_dial_++;
  dial->nonce = security::random_nonce();
  dial->endpoint = endpoints[peer.attempts.next_of(endpoints.size())];
  dial->socket = Socket(context_, ZMQ_DEALER);
  NodeId node = peer.address.node;
  std::uint64_t id = dial->id;
  bool usable = static_cast<bool>(dial->socket);
  if (usable) {
    set_tcp_options(dial->socket);
    dial->socket.set(ZMQ_IMMEDIATE, 1);
    dial->socket.set(ZMQ_RECONNECT_IVL, -1);
    dial->socket.set(ZMQ_CONNECT_TIMEOUT, 3'000);
    configure_dial(dial->socket, peer);
    dial->monitor = Monitor(context_, dial->socket);
    usable = dial->socket.connect(dial->endpoint);
  }
  peer.dial = std::move(dial);
  if (!usable) return fail_dial(peer, false);
  peer.dial->socket_watch = reactor_.watch(peer.dial->socket.fd(), Reactor::Wanted::reading,
                                           [this, node, id] { service_dial(node, id); });
  peer.dial->monitor_watch = reactor_.watch(peer.dial->monitor.fd(), Reactor::Wanted::reading,
                                            [this, node, id] { service_monitor(node, id); });
  reactor_.post([this, node, id] { service_monitor(node, id); });
  reactor_.after(kDialDeadline, [this, node, id] {
    Peer* late = find(node);
    if (current(node, id) && !late->session) fail_dial(*late, false);
  });
}

void ControlLane::close_dial(Peer& peer) {
  if (!peer.dial) return;
  std::unique_ptr<Dial> dial = std::move(peer.dial);
  reactor_.unwatch(dial->socket_watch);
  reactor_.unwatch(dial->monitor_watch);
  dial->monitor.stop(dial->socket);
  dial->socket.close();
}

void ControlLane::fail_dial(Peer& peer, bool refused) {
  close_dial(peer);
  if (peer.attempts.on_failed(refused, peer.address.control_endpoints.size()))
    report(peer, LinkState::refused);
  schedule_redial(peer);
}

void ControlLane::schedule_redial(Peer& peer) {
  if (peer.redial_pending || closing_) return;
  peer.redial_pending = true;
  const Duration pause =
      peer.attempts.next_pause(peer.address.control_endpoints.size(), options_.redial_max);
  reactor_.after(pause, [this, node = peer.address.node] {
    Peer* waiting = find(node);
    if (!waiting) return;
    waiting->redial_pending = false;
    if (!waiting->session && !waiting->dial) start_dial(*waiting);
  });
}

void ControlLane::service_monitor(const NodeId& node, std::uint64_t dial_id) {
  while (Dial* dial = current(node, dial_id)) {
    auto event = dial->monitor.next();
    if (!event) {
      if (dial->monitor.events() & ZMQ_POLLIN) continue;
      break;
    }
    if (!take_dial_event(*find(node), dial_id, *event)) return;
  }
  service_dial(node, dial_id);
}

// False: the dial is gone.
bool ControlLane::take_dial_event(Peer& peer, std::uint64_t dial_id, const MonitorEvent& event) {
  Dial& dial = *peer.dial;
  switch (event.event) {
    case ZMQ_EVENT_CONNECTED:
      dial.connected = true;
      return true;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      dial.handshaken = true;
      return true;
    case ZMQ_EVENT_DISCONNECTED:
      // What came before the break still counts.
      if (dial.handshaken && !drain_dial(peer, dial_id)) return false;
      [[fallthrough]];
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      if (peer.session) {
        break_session(peer, false);
      } else {
        fail_dial(peer, false);
      }
      return false;
    case ZMQ_EVENT_CLOSED:
    case ZMQ_EVENT_CONNECT_RETRIED:
      if (dial.connected) return true;
      probe_refusal(peer.address.node, dial.endpoint);
      return false;
    default:
      return true;
  }
}

// ZeroMQ does not say why a connection could not be opened, so it is asked once more.
void ControlLane::probe_refusal(const NodeId& node, const std::string& endpoint) {
  Peer* peer = find(node);
  auto target = parse_endpoint(endpoint);
  auto address = target ? numeric_address(*target) : std::nullopt;
  int fd = address ? begin_connect(*address) : -1;
  if (fd < 0) return fail_dial(*peer, address && errno == ECONNREFUSED);
  std::uint64_t dial_id = peer->dial->id;
  auto watch = std::make_shared<std::uint64_t>(0);
  // The watch holds the descriptor: a link that closes meanwhile closes it too.
  *watch = reactor_.watch(fd, Reactor::Wanted::writing,
                          [this, node, dial_id, watch, probe = share_descriptor(fd)] {
                            reactor_.unwatch(*watch);
                            int cause = connect_result(*probe);
                            if (current(node, dial_id))
                              fail_dial(*find(node), cause == ECONNREFUSED);
                          });
}

bool ControlLane::drain_dial(Peer& peer, std::uint64_t dial_id) {
  NodeId node = peer.address.node;
  for (int i = 0; i < kBatch; ++i) {
    Frames parts = peer.dial->socket.receive(kMaxParts);
    if (parts.empty()) return true;
    Incoming incoming;
    Unpacked unpacked = parts.size() == 1 ? unpack(parts[0], incoming) : Unpacked::bad;
    if (unpacked == Unpacked::bad || unpacked == Unpacked::other_version) {
      ++dropped_;
      if (unpacked == Unpacked::other_version) report_version(peer, incoming.other_major);
      if (peer.session) {
        break_session(peer, true);
      } else {
        fail_dial(peer, false);
      }
      return false;
    }
    const Envelope& envelope = incoming.envelope;
    if (peer.session) {
      take_session(peer, std::move(incoming));
    } else if (envelope.kind == Kind::welcome && envelope.session == peer.dial->nonce) {
      peer.seen_boot = std::max(peer.seen_boot, envelope.boot);
      peer.seen_order = envelope.order;
      Session session;
      session.nonce = envelope.session;
      session.dialled = true;
      open_session(peer, std::move(session));
    } else {
      fail_dial(peer, false);
    }
    if (!current(node, dial_id)) return false;
  }
  return true;
}

void ControlLane::try_hello(Peer& peer) {
  Envelope hello;
  hello.kind = Kind::hello;
  hello.session = peer.dial->nonce;
  hello.boot = options_.boot;
  hello.order = order_ + 1;
  if (send_frame(pack(hello, {}, {}), peer.dial->socket, nullptr) != Sent::yes) return;
  order_ = hello.order;
  peer.dial->hello_sent = true;
}

void ControlLane::service_dial(const NodeId& node, std::uint64_t dial_id) {
  for (int round = 0; round < 4; ++round) {
    if (!current(node, dial_id)) return;
    Peer& peer = *find(node);
    if (!drain_dial(peer, dial_id)) return;
    bool hello_due = peer.dial->handshaken && !peer.dial->hello_sent;
    if (hello_due) try_hello(peer);
    hello_due = hello_due && !peer.dial->hello_sent;
    Flushed flushed = peer.session ? flush(peer) : Flushed::all;
    if (flushed == Flushed::broken) return break_session(peer, false);
    int events = peer.dial->socket.events();
    bool writes = hello_due || flushed == Flushed::blocked;
    if (!(events & ZMQ_POLLIN) && !(writes && (events & ZMQ_POLLOUT))) return;
  }
  reactor_.post([this, node, dial_id] { service_dial(node, dial_id); });
}

}  // namespace gpunode::transport::detail
