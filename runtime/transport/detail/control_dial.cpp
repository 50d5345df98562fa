// The dialling half of the control lane: one DEALER a dialled peer, its monitor, pauses between
// attempts.
#include <cerrno>
#include <utility>

#include "runtime/security/crypto.hpp"
#include "runtime/transport/detail/control_door.hpp"
#include "runtime/transport/detail/control_frame.hpp"
#include "runtime/transport/detail/control_lane.hpp"

namespace gpunode::transport::detail {

namespace {

constexpr int kBatch = 256;
constexpr std::size_t kMaxParts = 2;
constexpr Duration kDialDeadline = std::chrono::seconds(3);

}  // namespace

ControlDial* ControlLane::current(const NodeId& node, std::uint64_t dial_id) {
  ControlPeer* peer = find(node);
  return peer && peer->dial && peer->dial->id == dial_id ? peer->dial.get() : nullptr;
}

// One attempt a socket: ZeroMQ's own redialling would neither tell of a refusal nor go to the next
// address, and after some refusals of the door it stops for ever.
bool ControlLane::configure_dial(ControlDial& dial, const ControlPeer& peer) {
  Socket& socket = dial.socket->own();
  if (!socket) return false;
  set_tcp_options(socket);
  set_frame_limits(socket, kMaxFrameBytes);
  socket.set(ZMQ_IMMEDIATE, 1);
  socket.set(ZMQ_RECONNECT_IVL, -1);
  socket.set(ZMQ_CONNECT_TIMEOUT, 3'000);
  socket.set_bytes(ZMQ_CURVE_SERVERKEY, peer.address.curve_public_key);
  const CurveKeyPair& own = peer.older_key && keys_.before ? *keys_.before : keys_.now;
  socket.set_bytes(ZMQ_CURVE_PUBLICKEY, own.open);
  socket.set_bytes(ZMQ_CURVE_SECRETKEY, own.secret);
  dial.monitor = Monitor(control_context(), socket);
  return socket.connect(dial.endpoint);
}

void ControlLane::seek(ControlPeer& peer) {
  const auto& endpoints = endpoints_of(peer);
  if (endpoints.empty() || peer.dial) return;
  peer.dial = std::make_unique<ControlDial>();
  ControlDial& dial = *peer.dial;
  dial.id = next_dial_++;
  dial.nonce = security::random_nonce();
  dial.endpoint = endpoints[peer.attempts.next_of(endpoints.size())];
  dial.socket = std::make_shared<SharedSocket>(Socket(control_context(), ZMQ_DEALER));
  if (!configure_dial(dial, peer)) return fail_dial(peer, false);
  const NodeId node = peer.address.node;
  const std::uint64_t id = dial.id;
  dial.socket->look = [this, node, id] { service_dial(node, id); };
  dial.socket_watch =
      reactor_.watch(dial.socket->own().fd(), Reactor::Wanted::reading, dial.socket->look);
  dial.monitor_watch = reactor_.watch(dial.monitor.fd(), Reactor::Wanted::reading,
                                      [this, node, id] { service_monitor(node, id); });
  reactor_.post([this, node, id] { service_monitor(node, id); });
  reactor_.after(kDialDeadline, [this, node, id] {
    ControlPeer* late = find(node);
    if (current(node, id) && !late->session) fail_dial(*late, false);
  });
}

void ControlLane::close_dial(ControlPeer& peer) {
  if (!peer.dial) return;
  const std::unique_ptr<ControlDial> dial = std::move(peer.dial);
  reactor_.unwatch(dial->socket_watch);
  reactor_.unwatch(dial->monitor_watch);
  dial->socket->close(dial->monitor);
}

void ControlLane::fail_dial(ControlPeer& peer, bool refused) {
  // Whoever hears and lets nobody in may know the key of before alone.
  if (peer.dial && peer.dial->connected && keys_.before) peer.older_key = !peer.older_key;
  close_dial(peer);
  note_failed_dial(peer, refused);
  redial_later(peer);
}

void ControlLane::service_monitor(const NodeId& node, std::uint64_t dial_id) {
  while (ControlDial* dial = current(node, dial_id)) {
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
bool ControlLane::take_dial_event(ControlPeer& peer, std::uint64_t dial_id,
                                  const MonitorEvent& event) {
  ControlDial& dial = *peer.dial;
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
      if (event.event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH && event.value == kNeverAgain &&
          !std::exchange(peer.shut_out, true))
        report(peer, LinkState::shut_out);
      peer.session ? break_session(peer, false) : fail_dial(peer, false);
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
  ControlPeer* peer = find(node);
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

bool ControlLane::drain_dial(ControlPeer& peer, std::uint64_t dial_id) {
  NodeId node = peer.address.node;
  for (int i = 0; i < kBatch; ++i) {
    Frames parts = peer.dial->socket->receive(kMaxParts);
    if (parts.empty()) return true;
    WireMessage message;
    std::uint16_t other_major = 0;
    if (parts.size() != 1 || unpack_frame(parts[0], message, other_major) != Unpacked::message) {
      if (other_major != 0) {
        ++dropped_;
        report_version(peer, other_major);
      } else {
        drop(&peer, Dropped::unreadable);
      }
      peer.session ? break_session(peer, true) : fail_dial(peer, false);
      return false;
    }
    const Envelope& envelope = message.envelope;
    if (peer.session) {
      take_session(peer, std::move(message));
    } else if (envelope.kind == Kind::welcome && envelope.session == peer.dial->nonce) {
      note_welcome(peer, envelope);
      open_session(peer, {.wire = std::make_shared<ControlWire>(peer.dial->socket, Bytes(),
                                                                envelope.session, options_.boot),
                          .dialled = true});
    } else {
      fail_dial(peer, false);
    }
    if (!current(node, dial_id)) return false;
  }
  return true;
}

void ControlLane::try_hello(ControlPeer& peer) {
  Frames hello;
  hello.push_back(pack_frame(greeting(Kind::hello, peer.dial->nonce)));
  peer.dial->hello_sent = peer.dial->socket->send(hello) == Sent::yes;
}

void ControlLane::service_dial(const NodeId& node, std::uint64_t dial_id) {
  // Each of sending and receiving swallows ZMQ_FD's news for the other: both, until neither moves.
  for (int round = 0; round < 4; ++round) {
    if (!current(node, dial_id)) return;
    ControlPeer& peer = *find(node);
    if (!drain_dial(peer, dial_id)) return;
    bool hello_due = peer.dial->handshaken && !peer.dial->hello_sent;
    if (hello_due) try_hello(peer);
    hello_due = hello_due && !peer.dial->hello_sent;
    Flushed flushed = peer.session ? flush(peer) : Flushed::all;
    if (flushed == Flushed::broken) return break_session(peer, false);
    int events = peer.dial->socket->events();
    bool writes = hello_due || flushed == Flushed::blocked;
    if (!(events & ZMQ_POLLIN) && !(writes && (events & ZMQ_POLLOUT))) return;
  }
  reactor_.post([this, node, dial_id] { service_dial(node, dial_id); });
}

}  // namespace gpunode::transport::detail
