// The connections of the bulk lane: dials, knocks at the door, sessions and what flows in them.
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/transport/detail/bulk_lane.hpp"

namespace gpunode::transport::detail {

namespace {

constexpr Duration kHandshakeDeadline = std::chrono::seconds(3);
constexpr std::size_t kMostKnocks = 64;
// Taken of one connection, or sent to one peer, before the others get their turn: about a chunk, so
// that what follows from it leaves while it is hot.
constexpr std::size_t kTurnBytes = std::size_t{1} << 20;
constexpr std::size_t kMessageCost = 64;
// What the kernel may hold that it has not sent: more urgent messages overtake what is not there.
constexpr int kUnsentBytes = 512 << 10;

struct TicketFrame {
  char magic[4] = {'G', 'P', 'B', 'T'};
  std::uint16_t version = 1;
  std::uint16_t length = 0;
  char ticket[56] = {};
};
static_assert(sizeof(TicketFrame) == 64);

void set_bulk_options(int fd) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 15'000);
  set(IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes);
}

}  // namespace

// Dialling.

void BulkLane::start_dial(Peer& peer, std::uint64_t nonce, const std::string& ticket) {
  const auto& endpoints = peer.address.bulk_endpoints;
  peer.dial.emplace(Dial{nonce, ticket, nullptr, 0});
  const NodeId node = peer.address.node;
  reactor_.after(kHandshakeDeadline, [this, node, nonce] {
    Peer* late = find(node);
    if (late && ((late->dial && late->dial->nonce == nonce) || late->hello == nonce))
      fail_dial(*late, false);
  });
  const auto target = endpoints.empty()
                          ? std::nullopt
                          : parse_endpoint(endpoints[peer.attempts.next_of(endpoints.size())]);
  if (!target) return fail_dial(peer, false);
  if (const auto address = numeric_address(*target)) return connect(peer, *address);
  if (!std::exchange(resolves_, true)) resolver_.start();
  resolver_.post([this, node, nonce, target = *target] {
    auto address = resolve(target);
    reactor_.post([this, node, nonce, address] {
      Peer* waiting = find(node);
      if (!waiting || !waiting->dial || waiting->dial->nonce != nonce) return;
      address ? connect(*waiting, *address) : fail_dial(*waiting, false);
    });
  });
}

void BulkLane::connect(Peer& peer, const SocketAddress& address) {
  const int fd = begin_connect(address, Pacing::none_inside_machine);
  if (fd < 0) return fail_dial(peer, errno == ECONNREFUSED);
  Dial& dial = *peer.dial;
  dial.fd = share_descriptor(fd);
  dial.watch = reactor_.watch(
      fd, Reactor::Wanted::writing,
      [this, node = peer.address.node, nonce = dial.nonce] { on_connected(node, nonce); });
}

// TCP stands, or does not: the ticket and a hello are the first bytes.
void BulkLane::on_connected(const NodeId& node, std::uint64_t nonce) {
  Peer* peer = find(node);
  if (!peer || !peer->dial || peer->dial->nonce != nonce) return;
  const int cause = connect_result(*peer->dial->fd);
  if (cause != 0) return fail_dial(*peer, cause == ECONNREFUSED);
  Dial dial = std::move(*peer->dial);
  peer->dial.reset();
  reactor_.unwatch(dial.watch);
  set_bulk_options(*dial.fd);
  TicketFrame frame;
  frame.length = static_cast<std::uint16_t>(dial.ticket.size());
  const bool fits = dial.ticket.size() <= sizeof frame.ticket;
  if (fits) std::memcpy(frame.ticket, dial.ticket.data(), dial.ticket.size());
  const bool shown =
      fits && ::send(*dial.fd, &frame, sizeof frame, MSG_NOSIGNAL) == ssize_t{sizeof frame};
  Connection* connection = shown ? add_connection(nonce, dial.fd, Role::dial) : nullptr;
  channels_.erase(nonce);
  if (!connection) return fail_dial(*peer, false);
  peer->hello = nonce;
  Envelope hello;
  hello.kind = Kind::hello;
  hello.order = ++order_;
  if (!say(*connection, hello)) fail_dial(*peer, false);
}

void BulkLane::close_dial(Peer& peer) {
  if (peer.dial) {
    if (peer.dial->watch != 0) reactor_.unwatch(peer.dial->watch);
    channels_.erase(peer.dial->nonce);
    peer.dial.reset();
  }
  if (peer.hello != 0) close_connection(std::exchange(peer.hello, 0));
}

void BulkLane::fail_dial(Peer& peer, bool refused) {
  close_dial(peer);
  if (peer.attempts.on_failed(refused, peer.address.bulk_endpoints.size()))
    report(peer, LinkState::refused);
  give_up_or_retry(peer);
}

// The door.

void BulkLane::take_knock(int fd) {
  const std::uint64_t number = next_knock_++;
  Knock& knock = knocks_[number];
  knock.fd = share_descriptor(fd);
  knock.watch =
      reactor_.watch(fd, Reactor::Wanted::reading, [this, number] { service_knock(number); });
  reactor_.after(kHandshakeDeadline, [this, number] { drop_knock(number); });
  // The oldest goes: an honest one shows its ticket within milliseconds.
  if (knocks_.size() > kMostKnocks) drop_knock(knocks_.begin()->first);
}

void BulkLane::service_knock(std::uint64_t number) {
  auto found = knocks_.find(number);
  if (found == knocks_.end()) return;
  Knock& knock = found->second;
  while (knock.filled < kTicketBytes) {
    const ssize_t got = ::recv(*knock.fd, knock.ticket.data() + knock.filled,
                               kTicketBytes - knock.filled, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return drop_knock(number);
    knock.filled += static_cast<std::size_t>(got);
  }
  admit(number);
}

// The ticket selects the keys to try; that they fit is shown by the first message.
void BulkLane::admit(std::uint64_t number) {
  auto knock = knocks_.extract(number);
  reactor_.unwatch(knock.mapped().watch);
  TicketFrame frame, expected;
  std::memcpy(&frame, knock.mapped().ticket.data(), sizeof frame);
  std::optional<security::TicketOwner> owner;
  if (std::memcmp(frame.magic, expected.magic, sizeof frame.magic) == 0 &&
      frame.version == expected.version && frame.length <= sizeof frame.ticket)
    owner = tickets_.redeem({frame.ticket, frame.length}, SystemClock().now());
  Connection* guest = nullptr;
  if (owner) {
    if (Peer* peer = find(owner->peer); peer && peer->offered == owner->session) peer->offered = 0;
    set_bulk_options(*knock.mapped().fd);
    pace_unless_local(*knock.mapped().fd, system_pacing_);
    guest = add_connection(owner->session, knock.mapped().fd, Role::guest);
  }
  if (!guest) {
    ++dropped_;
    return;
  }
  reactor_.after(kHandshakeDeadline, [this, nonce = owner->session] {
    Connection* late = find_connection(nonce);
    if (late && late->role == Role::guest) close_connection(nonce);
  });
}

void BulkLane::drop_knock(std::uint64_t number) {
  auto found = knocks_.find(number);
  if (found == knocks_.end()) return;
  ++dropped_;
  reactor_.unwatch(found->second.watch);
  knocks_.erase(found);
}

// Connections.

BulkLane::Connection* BulkLane::find_connection(std::uint64_t nonce) {
  auto found = connections_.find(nonce);
  return found == connections_.end() ? nullptr : found->second.get();
}

BulkLane::Connection* BulkLane::add_connection(std::uint64_t nonce, SharedDescriptor fd,
                                               Role role) {
  auto channel = channels_.extract(nonce);
  if (channel.empty() || find_connection(nonce)) return nullptr;
  auto connection = std::make_unique<Connection>(
      BulkStream(std::move(fd), std::move(channel.mapped()), nonce, pool_), role);
  connection->watch = reactor_.watch(connection->stream.descriptor(), Reactor::Wanted::edges,
                                     [this, nonce] { service(nonce); });
  reactor_.post([this, nonce] { service(nonce); });
  return (connections_[nonce] = std::move(connection)).get();
}

void BulkLane::close_connection(std::uint64_t nonce) {
  auto closed = connections_.extract(nonce);
  if (!closed.empty()) reactor_.unwatch(closed.mapped()->watch);
}

// It ended, or cannot go on.
void BulkLane::lose(std::uint64_t nonce) {
  Connection* connection = find_connection(nonce);
  Peer* peer = find(connection->stream.peer());
  if (peer && connection->role == Role::session) return break_session(*peer);
  if (peer && connection->role == Role::dial) return fail_dial(*peer, false);
  close_connection(nonce);
}

void BulkLane::service(std::uint64_t nonce) {
  for (std::size_t bytes = 0;;) {
    Connection* connection = find_connection(nonce);
    if (!connection) return;
    if (bytes >= kTurnBytes) {
      reactor_.post([this, nonce] { service(nonce); });  // it is told only once what lies there
      break;
    }
    BulkMessage message;
    const BulkStream::Read read = connection->stream.read(message);
    if (read == BulkStream::Read::message) {
      bytes += kMessageCost + message.body.size() + message.payload.size();
      take(*connection, std::move(message));
      continue;
    }
    if (read == BulkStream::Read::bad) ++dropped_;
    if (read != BulkStream::Read::nothing) return lose(nonce);
    break;
  }
  Connection* connection = find_connection(nonce);
  if (connection && connection->role == Role::session) flush(*find(connection->stream.peer()));
}

void BulkLane::take(Connection& connection, BulkMessage message) {
  const Envelope& envelope = message.envelope;
  Peer* peer = find(connection.stream.peer());
  if (!peer) return lose(connection.stream.session());
  switch (connection.role) {
    case Role::guest:
      if (envelope.kind == Kind::hello) return take_hello(connection, envelope);
      break;
    case Role::dial:
      if (envelope.kind != Kind::welcome) break;
      peer->hello = 0;
      peer->seen_boot = std::max(peer->seen_boot, envelope.boot);
      peer->seen_order = envelope.order;
      return open_session(*peer, connection);
    case Role::session:
      if (envelope.kind == Kind::data && envelope.seq == connection.seq_in + 1)
        return take_data(*peer, connection, std::move(message));
      ++dropped_;
      break;
  }
  lose(connection.stream.session());
}

void BulkLane::take_hello(Connection& guest, const Envelope& hello) {
  Peer& peer = *find(guest.stream.peer());
  const bool old = hello.boot < peer.seen_boot ||
                   (hello.boot == peer.seen_boot && hello.order <= peer.seen_order);
  if (!old) {
    peer.seen_boot = hello.boot;
    peer.seen_order = hello.order;
  }
  const bool mine_wins = !peer.session && peer.hello != 0 && options_.node < peer.address.node;
  Envelope answer;
  if (old || mine_wins) {
    answer.kind = Kind::not_yet;
    say(guest, answer);
    return close_connection(guest.stream.session());
  }
  if (peer.session != 0) {
    end_session(peer);
    report(peer, LinkState::reset);
  }
  close_dial(peer);
  answer.kind = Kind::welcome;
  answer.order = ++order_;
  if (!say(guest, answer)) return close_connection(guest.stream.session());
  open_session(peer, guest);
}

void BulkLane::take_data(Peer& peer, Connection& session, BulkMessage message) {
  ++session.seq_in;
  ++received_;
  bytes_received_ += message.body.size() + message.payload.size();
  const Envelope& envelope = message.envelope;
  if (envelope.topic == 0 || envelope.topic > static_cast<std::uint16_t>(Topic::admission)) {
    ++dropped_;  // of a later version than ours
    return;
  }
  Message data;
  data.topic = static_cast<Topic>(envelope.topic);
  data.stream = envelope.stream;
  data.body = std::move(message.body);
  data.payload = std::move(message.payload);
  if (events_.on_message) events_.on_message(peer.address.node, Lane::bulk, std::move(data));
}

// A message of the lane's own, which is small and the first on its connection.
bool BulkLane::say(Connection& connection, Envelope envelope) {
  envelope.session = connection.stream.session();
  envelope.boot = options_.boot;
  return connection.stream.begin(reactor_.now(), envelope, {}, {}) &&
         connection.stream.write() == BulkStream::Written::all;
}

// Sessions.

void BulkLane::open_session(Peer& peer, Connection& connection) {
  connection.role = Role::session;
  peer.session = connection.stream.session();
  peer.opening.reset();
  peer.failures = 0;
  peer.attempts.on_opened(options_.redial_min);
  withdraw_offer(peer);
  if (events_.place_of)
    connection.stream.place_payloads([this, node = peer.address.node](const BulkMessage& head) {
      const Envelope& envelope = head.envelope;
      if (envelope.kind != Kind::data) return WritableBytes{};
      return events_.place_of(node, {static_cast<Topic>(envelope.topic), envelope.stream, head.body,
                                     envelope.payload_bytes});
    });
  open(*peer.outbound);  // before `up`: its reader may send at once
  report(peer, LinkState::up);
  reactor_.post([this, node = peer.address.node] { service_peer(node); });
}

void BulkLane::end_session(Peer& peer) {
  const std::uint64_t nonce = std::exchange(peer.session, 0);
  if (Connection* connection = find_connection(nonce)) peer.outbound->bytes -= connection->sending;
  close_connection(nonce);
  discard(*peer.outbound);
}

void BulkLane::break_session(Peer& peer) {
  end_session(peer);
  report(peer, LinkState::reset);
}

void BulkLane::service_peer(const NodeId& node) {
  Peer* peer = find(node);
  if (!peer) return;
  if (peer->session != 0) return flush(*peer);
  {
    std::lock_guard lock(peer->outbound->mutex);
    peer->outbound->scheduled = false;
    if (peer->outbound->queue.empty()) return;
  }
  if (!peer->dial && !peer->hello) seek(*peer);
}

// Sends what waits, as far as the kernel takes it; it tells when it takes more.
void BulkLane::flush(Peer& peer) {
  Connection& session = *find_connection(peer.session);
  for (std::size_t bytes = 0; bytes < kTurnBytes;) {
    const BulkStream::Written written = session.stream.write();
    if (written == BulkStream::Written::blocked) return;
    if (written == BulkStream::Written::broken) return break_session(peer);
    peer.outbound->bytes -= std::exchange(session.sending, 0);
    Message message;
    {
      std::lock_guard lock(peer.outbound->mutex);
      peer.outbound->queue.has_left();
      if (peer.outbound->queue.empty()) {
        peer.outbound->scheduled = false;
        return;
      }
      message = peer.outbound->queue.take();
      peer.outbound->queue.leaves(message);
    }
    session.sending = size_of(message);
    Envelope envelope;
    envelope.kind = Kind::data;
    envelope.topic = static_cast<std::uint16_t>(message.topic);
    envelope.stream = message.stream;
    envelope.session = session.stream.session();
    envelope.seq = ++session.seq_out;
    envelope.payload_bytes = message.payload.size();
    if (!session.stream.begin(reactor_.now(), envelope, message.body, message.payload))
      return break_session(peer);
    ++sent_;
    bytes_sent_ += session.sending;
    bytes += session.sending + kMessageCost;
  }
  reactor_.post([this, node = peer.address.node] { service_peer(node); });
}

void BulkLane::close_all() {
  closing_ = true;
  for (auto& [node, peer] : peers_) {
    if (peer.session != 0) end_session(peer);
    close_dial(peer);
    discard(*peer.outbound);
  }
  peers_.clear();
  while (!connections_.empty()) close_connection(connections_.begin()->first);
  while (!knocks_.empty()) drop_knock(knocks_.begin()->first);
  doors_.clear();
}

}  // namespace gpunode::transport::detail
