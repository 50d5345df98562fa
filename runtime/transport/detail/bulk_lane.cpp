// The bulk lane's sessions and what flows in them.
#include "runtime/transport/detail/bulk_lane.hpp"

#include <utility>

namespace gpunode::transport::detail {

namespace {

// A wake-up costs about that much; longer would only take the core from who has work.
constexpr Duration kSpin = std::chrono::microseconds(50);
// Taken of one connection, or sent to one peer, before the others get their turn: about a chunk, so
// that what follows from it leaves while it is hot.
constexpr std::size_t kTurnBytes = std::size_t{1} << 20;
constexpr std::size_t kMessageCost = 64;                       // so that empty ones end a turn too
constexpr std::size_t kTogetherBytes = std::size_t{16} << 10;  // of short messages, in one write
constexpr std::size_t kSoonUnsentBytes = std::size_t{64}
                                         << 10;  // may lie before a call, in the kernel
constexpr Duration kCrowd = std::chrono::microseconds(25);
constexpr std::size_t kUnbounded = ~std::size_t{0};
constexpr Duration kHeldBack = std::chrono::milliseconds(1);

}  // namespace

BulkLane::BulkLane(const MeshLinkOptions& options, const LinkEvents& events,
                   PostFn post_over_control)
    : PeerLane({Lane::bulk, &PeerAddress::bulk_endpoints, {kUnbounded, options.bulk_budget_bytes}},
               options, events),
      post_over_control_(std::move(post_over_control)),
      door_(reactor_, options.allowed,
            [this](SharedDescriptor fd, const security::TicketOwner& owner) {
              admit(std::move(fd), owner);
            }) {
  reactor_.spin_up_to(kSpin);
}

void BulkLane::start() {
  door_.start();
  reactor_.start();
}

void BulkLane::stop() {
  close_intake();
  reactor_.stop([this] {
    close_peers();
    while (!connections_.empty()) close_connection(connections_.begin()->first);
    door_.close();
  });
  resolver_.stop(nullptr);
}

LinkCounters BulkLane::counters() const {
  LinkCounters counted = PeerLane::counters();
  counted.frames_dropped += door_.refused_count();
  return counted;
}

void BulkLane::on_control(const NodeId& node, bool up, Boot boot) {
  if (auto outbox = find_outbox(node)) outbox->wait_without_session(up);
  reactor_.post([this, node, up, boot] {
    BulkPeer* peer = find(node);
    if (up) {
      // The peer lives anew; what TCP still holds open leads to its last life.
      if (peer && peer->session && peer->seen_boot < boot) break_session(*peer, false);
      return;
    }
    // A ticket that is out was asked for over the session that has just ended.
    door_.forget(node);
    if (!peer || peer->session) return;
    peer->opening.reset();
    close_dial(*peer);
    give_up(*peer);
  });
}

// Connections.

BulkConnection* BulkLane::find_connection(std::uint64_t nonce) {
  auto found = connections_.find(nonce);
  return found == connections_.end() ? nullptr : found->second.get();
}

BulkConnection* BulkLane::add_connection(std::uint64_t nonce, SharedDescriptor fd, Role role) {
  auto channel = channels_.extract(nonce);
  if (channel.empty() || find_connection(nonce)) return nullptr;
  auto connection = std::make_shared<BulkConnection>(
      BulkConnection{BulkStream(std::move(fd), std::move(channel.mapped()), nonce, pool_), role});
  connection->watch = reactor_.watch(connection->stream.descriptor(), Reactor::Wanted::edges,
                                     [this, nonce] { service(nonce); });
  reactor_.post([this, nonce] { service(nonce); });  // its bytes may have come before the watch
  return (connections_[nonce] = std::move(connection)).get();
}

void BulkLane::close_connection(std::uint64_t nonce) {
  auto closed = connections_.extract(nonce);
  if (!closed.empty()) reactor_.unwatch(closed.mapped()->watch);
}

// It ended, or cannot go on.
void BulkLane::lose(std::uint64_t nonce) {
  BulkConnection* connection = find_connection(nonce);
  BulkPeer* peer = find(connection->stream.peer());
  if (peer && connection->role == Role::session) return break_session(*peer, false);
  if (peer && connection->role == Role::dial) return fail_dial(*peer, false);
  close_connection(nonce);
}

// What the peer has sent stays in the kernel, and what it sends next with the peer.
bool BulkLane::is_held_back(BulkConnection& connection) {
  if (connection.role != Role::session || !events_.may_read) return false;
  if (events_.may_read(connection.stream.peer())) return false;
  if (!std::exchange(connection.held_back, true))
    reactor_.after(kHeldBack, [this, nonce = connection.stream.session()] {
      BulkConnection* waiting = find_connection(nonce);
      if (!waiting) return;
      waiting->held_back = false;
      service(nonce);
    });
  return true;
}

void BulkLane::service(std::uint64_t nonce) {
  for (std::size_t bytes = 0;;) {
    // Looked for each time: what is delivered may end the session that it came by.
    BulkConnection* connection = find_connection(nonce);
    if (!connection) return;
    if (is_held_back(*connection)) break;
    if (bytes >= kTurnBytes) {
      reactor_.post([this, nonce] { service(nonce); });  // it is told only once what lies there
      break;
    }
    WireMessage message;
    const BulkStream::Read read = connection->stream.read(message);
    if (read == BulkStream::Read::message) {
      bytes += kMessageCost + message.body.size() + message.payload.size();
      take(*connection, std::move(message));
      continue;
    }
    if (read == BulkStream::Read::bad) drop(find(connection->stream.peer()), Dropped::unreadable);
    if (read != BulkStream::Read::nothing) return lose(nonce);
    break;
  }
  // An edge does not say which of reading and writing it is for.
  BulkConnection* connection = find_connection(nonce);
  if (connection && connection->role == Role::session) flush(*find(connection->stream.peer()));
}

void BulkLane::take(BulkConnection& connection, WireMessage message) {
  const Envelope& envelope = message.envelope;
  BulkPeer* peer = find(connection.stream.peer());
  if (!peer) return lose(connection.stream.session());
  switch (connection.role) {
    case Role::guest:
      if (envelope.kind == Kind::hello) return take_hello(connection, envelope);
      break;
    case Role::dial:
      if (envelope.kind != Kind::welcome) break;
      peer->hello = 0;
      note_welcome(*peer, envelope);
      return open_session(*peer, connection);
    case Role::session:
      if (envelope.kind == Kind::data && envelope.seq == connection.seq_in + 1) {
        ++connection.seq_in;
        return deliver(*peer, std::move(message));
      }
      drop(peer, Dropped::unreadable);
      break;
  }
  lose(connection.stream.session());
}

void BulkLane::take_hello(BulkConnection& guest, const Envelope& hello) {
  BulkPeer& peer = *find(guest.stream.peer());
  const std::uint64_t nonce = guest.stream.session();
  const bool newest = is_newest(peer, hello);
  const bool mine_wins = !peer.session && peer.hello != 0 && options_.node < peer.address.node;
  if (!newest || mine_wins) {
    say(guest, Kind::not_yet);
    return close_connection(nonce);
  }
  if (peer.session != 0) break_session(peer, false);
  close_dial(peer);
  if (!say(guest, Kind::welcome)) return close_connection(nonce);
  open_session(peer, guest);
}

// A message of the lane's own, which is small and the first on its connection.
bool BulkLane::say(BulkConnection& connection, Kind kind) {
  const Envelope envelope = greeting(kind, connection.stream.session());
  return connection.stream.begin(reactor_.now(), envelope, {}, {}) &&
         connection.stream.write() == BulkStream::Written::all;
}

// Sessions.

void BulkLane::open_session(BulkPeer& peer, BulkConnection& connection) {
  connection.role = Role::session;
  peer.session = connection.stream.session();
  peer.opening.reset();
  peer.failures = 0;
  peer.attempts.on_opened(options_.redial_min);
  withdraw_offer(peer);
  if (events_.memory_for)
    connection.stream.read_payloads_to([this, node = peer.address.node](const WireMessage& head) {
      const Envelope& envelope = head.envelope;
      if (envelope.kind != Kind::data) return WritableBytes{};
      return events_.memory_for(node, {static_cast<Topic>(envelope.topic), envelope.stream,
                                       head.body, envelope.payload_bytes});
    });
  peer.outbox->open({}, write_on(connection));  // before `up`: its reader may send at once
  report(peer, LinkState::up);
  reactor_.post([this, node = peer.address.node] { service_peer(node); });
}

void BulkLane::end_session(BulkPeer& peer) {
  peer.outbox->reset();
  close_connection(std::exchange(peer.session, 0));
}

// The peer is told by TCP.
void BulkLane::break_session(BulkPeer& peer, bool) {
  end_session(peer);
  report(peer, LinkState::reset);
}

void BulkLane::service_peer(const NodeId& node) {
  BulkPeer* peer = find(node);
  if (!peer) return;
  if (peer->session != 0) return flush(*peer);
  if (peer->outbox->rest() && is_idle(*peer)) seek(*peer);
}

bool BulkLane::begin(BulkConnection& session, const Message& message) {
  Envelope envelope = data_envelope(message);
  envelope.session = session.stream.session();
  envelope.seq = ++session.seq_out;
  if (!session.stream.begin(reactor_.now(), envelope, message.body, message.payload)) return false;
  note_sent(message);
  return true;
}

// Sends what waits, as far as the kernel takes it; it tells when it takes more. Short ones together,
// others one at a time: what is urgent overtakes all that has not begun.
void BulkLane::flush(BulkPeer& peer) {
  if (!peer.outbox->hold()) return;
  BulkConnection& session = *find_connection(peer.session);
  for (std::size_t bytes = 0; bytes < kTurnBytes;) {
    const BulkStream::Written written = session.stream.write();
    if (written == BulkStream::Written::blocked) return;
    if (written == BulkStream::Written::broken) return break_session(peer, false);
    const std::size_t before = bytes;
    do {
      const std::optional<Message> message = peer.outbox->take();
      if (!message) return;
      if (!begin(session, *message)) return break_session(peer, false);
      bytes += size_of(*message) + kMessageCost;
    } while (bytes - before < kTogetherBytes && !peer.outbox->empty());
  }
  reactor_.post([this, node = peer.address.node] { service_peer(node); });
}

// A call and its answer go without a change of threads; who waits for them would wait for that too.
// Plain channels are for what their owner lets others read: calls may be anything.
Outbox::Write BulkLane::write_on(const BulkConnection& opened) {
  if (opened.stream.is_plain()) return {};
  return [this, session = connections_.at(opened.stream.session())](const Message& message) {
    if (session->stream.unsent_bytes() > kSoonUnsentBytes) return Outbox::Written::nothing;
    if (!begin(*session, message)) {
      reactor_.post([this, nonce = session->stream.session()] {
        if (find_connection(nonce)) lose(nonce);
      });
      return Outbox::Written::all;
    }
    const bool all = session->stream.write() == BulkStream::Written::all;
    return all ? Outbox::Written::all : Outbox::Written::rest;
  };
}

bool BulkLane::send_soon(const NodeId& to, const Message& message) {
  const std::shared_ptr<Outbox> outbox = find_outbox(to);
  if (!outbox || !check_limits(Lane::bulk, message)) return false;
  // Answers of this lane's thread go together, and so do the calls of many.
  const Time now = reactor_.now();
  const bool alone =
      now - Time(Duration(last_soon_.exchange(now.time_since_epoch().count()))) > kCrowd;
  const Outbox::Pushed pushed = outbox->push_soon(message, alone && !reactor_.on_its_thread());
  if (pushed.wakes || (!pushed.taken && outbox->misses_session()))
    reactor_.post([this, to] { service_peer(to); });
  return pushed.taken;
}

}  // namespace gpunode::transport::detail
