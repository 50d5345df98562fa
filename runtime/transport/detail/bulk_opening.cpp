// How a session of the bulk lane comes about: asked for over the control lane, then dialled.
#include "runtime/transport/detail/bulk_lane.hpp"

#include <cerrno>

namespace gpunode::transport::detail {

namespace {

constexpr int kMaxFailures = 4;
constexpr Duration kOpenDeadline = std::chrono::seconds(3);
constexpr Duration kHandshakeDeadline = std::chrono::seconds(3);
constexpr std::uint8_t kOnlyStream = 0;  // a session could have several connections; it has one

}  // namespace

// Asking.

void BulkLane::seek(BulkPeer& peer) {
  // Opened by the first message, or by many calls: most peers of a large cluster exchange no more.
  if (!peer.outbox->wants_session() || peer.opening) return;
  if (!endpoints_of(peer).empty()) return ask_to_dial(peer);
  open_by(peer, {.kind = Kind::bulk_want}, std::nullopt);
}

// Asks for a ticket to the peer's bulk port.
void BulkLane::ask_to_dial(BulkPeer& peer) {
  auto key = security::EphemeralKey::create();
  const Envelope request{
      .kind = Kind::bulk_request, .plain = options_.bulk_plain, .key_share = key.public_key()};
  open_by(peer, request, std::move(key));
}

void BulkLane::open_by(BulkPeer& peer, Envelope request,
                       std::optional<security::EphemeralKey> key) {
  const std::uint64_t attempt = next_attempt_++;
  peer.opening.emplace(BulkOpening{attempt, std::move(key)});
  post_over_control_(peer.address.node, request);
  reactor_.after(kOpenDeadline, [this, node = peer.address.node, attempt] {
    BulkPeer* late = find(node);
    if (late && late->opening && late->opening->attempt == attempt && is_idle(*late))
      give_up_or_retry(*late);
  });
}

void BulkLane::give_up_or_retry(BulkPeer& peer) {
  peer.opening.reset();
  if (peer.outbox->empty()) return give_up(peer);
  if (peer.outbox->may_wait_without_session() && ++peer.failures < kMaxFailures)
    return redial_later(peer);
  give_up(peer);
}

// What waits for a session is lost.
void BulkLane::give_up(BulkPeer& peer) {
  peer.failures = 0;
  const bool waiting = !peer.outbox->empty();
  peer.outbox->reset();
  if (waiting) report(peer, LinkState::reset);
}

void BulkLane::take_envelope(const NodeId& from, const Envelope& envelope) {
  reactor_.post([this, from, envelope] {
    BulkPeer* peer = find(from);
    if (!peer) return;
    if (envelope.kind == Kind::bulk_request) take_request(*peer, envelope);
    if (envelope.kind == Kind::bulk_ticket) take_ticket(*peer, envelope);
    const bool can_ask = is_idle(*peer) && !peer->opening && !endpoints_of(*peer).empty();
    if (envelope.kind == Kind::bulk_want && can_ask) ask_to_dial(*peer);
  });
}

bool BulkLane::set_keys(BulkChannel& channel, const security::EphemeralKey& mine,
                        const Envelope& request, const Envelope& ticket, bool dialler) {
  using security::Direction;
  channel.plain = ticket.plain;
  if (channel.plain) return true;
  auto agreed = mine.agree(dialler ? ticket.key_share : request.key_share);
  if (!agreed) return false;
  security::SessionContext context;
  context.dialler = dialler ? options_.node : channel.peer;
  context.listener = dialler ? channel.peer : options_.node;
  context.dialler_boot = dialler ? options_.boot : request.boot;
  context.listener_boot = dialler ? ticket.boot : options_.boot;
  context.connection_nonce = ticket.nonce;
  context.dialler_key = request.key_share;
  context.listener_key = ticket.key_share;
  Direction out = dialler ? Direction::dialler_to_listener : Direction::listener_to_dialler;
  Direction in = dialler ? Direction::listener_to_dialler : Direction::dialler_to_listener;
  channel.sealer.emplace(security::derive_bulk_key(*agreed, context, out, kOnlyStream),
                         reactor_.now());
  channel.opener.emplace(security::derive_bulk_key(*agreed, context, in, kOnlyStream));
  return true;
}

void BulkLane::withdraw_offer(BulkPeer& peer) {
  door_.forget(peer.address.node);
  if (peer.offered != 0) channels_.erase(std::exchange(peer.offered, 0));
}

// We are the listener.
void BulkLane::take_request(BulkPeer& peer, const Envelope& request) {
  if (door_.endpoints().empty()) return;
  withdraw_offer(peer);
  security::EphemeralKey mine = security::EphemeralKey::create();
  Envelope offer{.kind = Kind::bulk_ticket,
                 .stream = security::random_nonce(),
                 .plain = request.plain && options_.bulk_plain,
                 .key_share = mine.public_key(),
                 .nonce = security::random_array<16>()};
  BulkChannel channel;
  channel.peer = peer.address.node;
  if (!set_keys(channel, mine, request, offer, false)) return;
  auto ticket = door_.give_ticket({channel.peer, offer.stream});
  if (!ticket) return;
  offer.ticket = *ticket;
  peer.offered = offer.stream;
  channels_.emplace(offer.stream, std::move(channel));
  post_over_control_(peer.address.node, offer);
}

// We are the dialler.
void BulkLane::take_ticket(BulkPeer& peer, const Envelope& ticket) {
  if (!peer.opening || !peer.opening->key || !is_idle(peer)) return;
  if (ticket.plain && !options_.bulk_plain) return;
  const Envelope request{.key_share = peer.opening->key->public_key()};
  BulkChannel channel;
  channel.peer = peer.address.node;
  if (!set_keys(channel, *peer.opening->key, request, ticket, true)) return;
  peer.opening->key.reset();
  if (find_connection(ticket.stream) ||
      !channels_.emplace(ticket.stream, std::move(channel)).second)
    return;
  start_dial(peer, ticket.stream, ticket.ticket);
}

// Dialling.

void BulkLane::start_dial(BulkPeer& peer, std::uint64_t nonce, const std::string& ticket) {
  const auto& endpoints = endpoints_of(peer);
  peer.dial.emplace(BulkDial{nonce, ticket, nullptr, 0});
  const NodeId node = peer.address.node;
  reactor_.after(kHandshakeDeadline, [this, node, nonce] {
    BulkPeer* late = find(node);
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
      BulkPeer* waiting = find(node);
      if (!waiting || !waiting->dial || waiting->dial->nonce != nonce) return;
      address ? connect(*waiting, *address) : fail_dial(*waiting, false);
    });
  });
}

void BulkLane::connect(BulkPeer& peer, const SocketAddress& address) {
  const int fd = begin_connect(address, Pacing::none_inside_machine);
  if (fd < 0) return fail_dial(peer, errno == ECONNREFUSED);
  BulkDial& dial = *peer.dial;
  dial.fd = share_descriptor(fd);
  dial.watch = reactor_.watch(
      fd, Reactor::Wanted::writing,
      [this, node = peer.address.node, nonce = dial.nonce] { on_connected(node, nonce); });
}

// TCP stands, or does not: the ticket and a hello are the first bytes.
void BulkLane::on_connected(const NodeId& node, std::uint64_t nonce) {
  BulkPeer* peer = find(node);
  if (!peer || !peer->dial || peer->dial->nonce != nonce) return;
  const int cause = connect_result(*peer->dial->fd);
  if (cause != 0) return fail_dial(*peer, cause == ECONNREFUSED);
  BulkDial dial = std::move(*peer->dial);
  peer->dial.reset();
  reactor_.unwatch(dial.watch);
  const bool shown = BulkDoor::show_ticket(*dial.fd, dial.ticket);
  BulkConnection* connection = shown ? add_connection(nonce, dial.fd, Role::dial) : nullptr;
  channels_.erase(nonce);
  if (!connection) return fail_dial(*peer, false);
  peer->hello = nonce;
  if (!say(*connection, Kind::hello)) fail_dial(*peer, false);
}

void BulkLane::close_dial(BulkPeer& peer) {
  if (peer.dial) {
    if (peer.dial->watch != 0) reactor_.unwatch(peer.dial->watch);
    channels_.erase(peer.dial->nonce);
    peer.dial.reset();
  }
  if (peer.hello != 0) close_connection(std::exchange(peer.hello, 0));
}

void BulkLane::fail_dial(BulkPeer& peer, bool refused) {
  close_dial(peer);
  note_failed_dial(peer, refused);
  give_up_or_retry(peer);
}

// A connection has shown the ticket of an offer.
void BulkLane::admit(SharedDescriptor fd, const security::TicketOwner& owner) {
  const std::uint64_t nonce = owner.session;
  BulkPeer* peer = find(owner.peer);
  if (peer && peer->offered == nonce) peer->offered = 0;
  if (!add_connection(nonce, std::move(fd), Role::guest)) {
    ++dropped_;
    return;
  }
  if (peer)  // one that has said nothing yet makes room
    if (const BulkConnection* older = find_connection(std::exchange(peer->guest, nonce));
        older && older->role == Role::guest)
      close_connection(older->stream.session());
  reactor_.after(kHandshakeDeadline, [this, nonce] {
    BulkConnection* late = find_connection(nonce);
    if (late && late->role == Role::guest) close_connection(nonce);
  });
}

}  // namespace gpunode::transport::detail
