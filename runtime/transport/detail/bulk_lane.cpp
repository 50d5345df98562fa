#include "runtime/transport/detail/bulk_lane.hpp"

#include <charconv>

#include "runtime/transport/detail/control_lane.hpp"

namespace gpunode::transport::detail {

namespace {

constexpr int kReceiveMark = 32;  // messages: bounds what a sender can pile up in ZeroMQ
constexpr int kMaxFailures = 4;
// A wake-up costs about that much; longer would only take the core from ZeroMQ's own threads.
constexpr Duration kSpin = std::chrono::microseconds(50);
constexpr Duration kOpenDeadline = std::chrono::seconds(3);
constexpr std::uint8_t kKeyLane = 0;
// Bits of the context's two I/O threads. Left to itself ZeroMQ puts both ways of a pair on one.
constexpr std::int64_t kReceivingThread = 1, kSendingThread = 2;

void set_bulk_options(Socket& socket) {
  socket.set_wide(ZMQ_MAXMSGSIZE, kMaxBulkPayloadBytes + 4096);
  socket.set(ZMQ_SNDHWM, 0);  // our own budget in bytes bounds it
  socket.set(ZMQ_RCVHWM, kReceiveMark);
}

}  // namespace

BulkLane::BulkLane(const ZmqLinkOptions& options, const LinkEvents& events,
                   PostFn post_over_control)
    : LaneLoop(Lane::bulk, bulk_context(), options, events),
      post_over_control_(std::move(post_over_control)),
      domain_(options.node.text()) {
  reactor_.spin_up_to(kSpin);
  open_door(context_, domain_, [this](const Knock& knock) {
    if (knock.mechanism != "PLAIN") return KnockAnswer{400, ""};
    auto owner = tickets_.redeem(as_text(knock.second), SystemClock().now());
    if (!owner) return KnockAnswer{400, ""};
    return KnockAnswer{200, owner->peer.text() + "." + std::to_string(owner->session)};
  });
}

BulkLane::~BulkLane() {
  close_door(context_, domain_);
}

void BulkLane::configure_inbox(Socket& inbox) {
  inbox.set_wide(ZMQ_AFFINITY, kReceivingThread);
  inbox.set(ZMQ_PLAIN_SERVER, 1);
  inbox.set_bytes(ZMQ_ZAP_DOMAIN, as_bytes(domain_));
  set_bulk_options(inbox);
}

void BulkLane::configure_dial(Socket& socket, const Peer& peer) {
  const std::string& ticket = openings_[peer.address.node].ticket;
  socket.set_wide(ZMQ_AFFINITY, kSendingThread);
  socket.set_bytes(ZMQ_PLAIN_USERNAME, as_bytes("gpunode"));
  socket.set_bytes(ZMQ_PLAIN_PASSWORD, as_bytes(ticket));
  set_bulk_options(socket);
}

std::optional<LaneLoop::Origin> BulkLane::origin_of(const std::string& user_id) {
  auto dot = user_id.find('.');
  if (dot == std::string::npos) return std::nullopt;
  auto node = NodeId::parse(user_id.substr(0, dot));
  Origin origin;
  const char* end = user_id.data() + user_id.size();
  auto read = std::from_chars(user_id.data() + dot + 1, end, origin.nonce);
  if (!node || read.ec != std::errc() || read.ptr != end) return std::nullopt;
  origin.peer = *node;
  return origin;
}

Frames BulkLane::pack(std::uint64_t nonce, const Envelope& envelope, ByteView body,
                      const SharedBytes& payload, const std::shared_ptr<Charge>& charge) {
  auto found = channels_.find(nonce);
  if (found == channels_.end()) return {};
  return pack_bulk(found->second, nonce, envelope, body, payload, charge, *pool_, reactor_.now());
}

Unpacked BulkLane::unpack(std::uint64_t nonce, Frame& frame, Incoming& into) {
  auto found = channels_.find(nonce);
  if (found == channels_.end()) return Unpacked::bad;
  return unpack_bulk(found->second, nonce, frame, into);
}

bool BulkLane::can_queue(const Outbound& outbound, const Message& message) const {
  std::size_t size = message.body.size() + message.payload.size();
  return outbound.bytes == 0 || outbound.bytes + size <= options_.bulk_budget_bytes;
}

// Opening.

void BulkLane::control_changed(const NodeId& node, bool up, Boot boot) {
  if (auto outbound = outbound_of(node)) {
    std::lock_guard lock(outbound->mutex);
    outbound->idle_accepting = up;
    outbound->accepting = up || outbound->open;
  }
  reactor_.post([this, node, up, boot] {
    Peer* peer = find(node);
    if (up) {
      // The peer lives anew; what TCP still holds open leads to its last life.
      if (peer && peer->session && peer->seen_boot < boot) break_session(*peer, false);
      return;
    }
    tickets_.forget(node);
    if (!peer || peer->session) return;
    // Without control no session comes about: what waits for one is lost.
    openings_.erase(node);
    failures_.erase(node);
    close_dial(*peer);
    bool waiting;
    {
      std::lock_guard lock(peer->outbound->mutex);
      waiting = !peer->outbound->queue.empty();
    }
    discard_queue(*peer);
    if (waiting) report(*peer, LinkState::reset);
  });
}

void BulkLane::seek(Peer& peer) {
  NodeId node = peer.address.node;
  {
    std::lock_guard lock(peer.outbound->mutex);
    if (peer.outbound->queue.empty()) return;  // opened by the first message
  }
  if (openings_.contains(node)) return;
  Opening& opening = openings_[node];
  opening.attempt = next_attempt_++;
  Envelope envelope;
  if (peer.address.bulk_endpoints.empty()) {
    envelope.kind = Kind::bulk_want;
  } else {
    opening.key = security::EphemeralKey::create();
    envelope.kind = Kind::bulk_request;
    envelope.key_share = opening.key->public_key();
    envelope.plain = options_.bulk_plain;
  }
  post_over_control_(node, envelope);
  reactor_.after(kOpenDeadline, [this, node, attempt = opening.attempt] {
    Peer* late = find(node);
    auto found = openings_.find(node);
    if (!late || late->session || found == openings_.end()) return;
    if (found->second.attempt == attempt && !late->dial) give_up_or_retry(*late);
  });
}

void BulkLane::give_up_or_retry(Peer& peer) {
  NodeId node = peer.address.node;
  openings_.erase(node);
  bool control_up, waiting;
  {
    std::lock_guard lock(peer.outbound->mutex);
    control_up = peer.outbound->idle_accepting;
    waiting = !peer.outbound->queue.empty();
  }
  if (!waiting) return;
  if (control_up && ++failures_[node] < kMaxFailures) return schedule_redial(peer);
  failures_.erase(node);
  discard_queue(peer);
  report(peer, LinkState::reset);
}

void BulkLane::post_envelope(const NodeId& from, const Envelope& envelope) {
  reactor_.post([this, from, envelope] {
    Peer* peer = find(from);
    if (!peer) return;
    if (envelope.kind == Kind::bulk_request) take_request(*peer, envelope);
    if (envelope.kind == Kind::bulk_ticket) take_ticket(*peer, envelope);
    if (envelope.kind != Kind::bulk_want || peer->session || peer->dial) return;
    if (peer->address.bulk_endpoints.empty() || openings_.contains(from)) return;
    Opening& opening = openings_[from];
    opening.attempt = next_attempt_++;
    opening.key = security::EphemeralKey::create();
    Envelope request;
    request.kind = Kind::bulk_request;
    request.key_share = opening.key->public_key();
    request.plain = options_.bulk_plain;
    post_over_control_(from, request);
    reactor_.after(kOpenDeadline, [this, from, attempt = opening.attempt] {
      auto found = openings_.find(from);
      Peer* late = find(from);
      bool dead = late && !late->session && !late->dial;
      if (dead && found != openings_.end() && found->second.attempt == attempt) {
        openings_.erase(found);
      }
    });
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
  channel.sealer.emplace(security::derive_bulk_key(*agreed, context, out, kKeyLane),
                         reactor_.now());
  channel.opener.emplace(security::derive_bulk_key(*agreed, context, in, kKeyLane));
  return true;
}

// We are the listener.
void BulkLane::take_request(Peer& peer, const Envelope& request) {
  if (!listens()) return;
  NodeId node = peer.address.node;
  if (auto old = offered_.find(node); old != offered_.end()) {
    channels_.erase(old->second);
    offered_.erase(old);
    tickets_.forget(node);
  }
  security::EphemeralKey mine = security::EphemeralKey::create();
  Envelope offer;
  offer.kind = Kind::bulk_ticket;
  offer.stream = random_nonce();
  offer.key_share = mine.public_key();
  offer.nonce = security::random_array<16>();
  offer.plain = request.plain && options_.bulk_plain;
  BulkChannel channel;
  channel.peer = node;
  if (!set_keys(channel, mine, request, offer, false)) return;
  auto ticket = tickets_.issue({node, offer.stream}, SystemClock().now());
  if (!ticket) return;
  offer.ticket = *ticket;
  offered_[node] = offer.stream;
  channels_.emplace(offer.stream, std::move(channel));
  post_over_control_(node, offer);
}

// We are the dialler.
void BulkLane::take_ticket(Peer& peer, const Envelope& ticket) {
  auto found = openings_.find(peer.address.node);
  if (found == openings_.end() || !found->second.key || peer.session || peer.dial) return;
  if (ticket.plain && !options_.bulk_plain) return;
  Envelope request;
  request.key_share = found->second.key->public_key();
  BulkChannel channel;
  channel.peer = peer.address.node;
  if (!set_keys(channel, *found->second.key, request, ticket, true)) return;
  found->second.key.reset();
  found->second.ticket = ticket.ticket;
  if (!channels_.emplace(ticket.stream, std::move(channel)).second) return;
  start_dial(peer, ticket.stream);
}

void BulkLane::on_open(Peer& peer) {
  NodeId node = peer.address.node;
  openings_.erase(node);
  failures_.erase(node);
  auto offered = offered_.find(node);
  if (offered == offered_.end()) return;
  if (offered->second != peer.session->nonce) {
    channels_.erase(offered->second);
    tickets_.forget(node);
  }
  offered_.erase(offered);
}

void BulkLane::on_broken(Peer&) {}

void BulkLane::on_dial_failed(Peer& peer, bool) {
  give_up_or_retry(peer);
}

void BulkLane::on_dropped(Peer& peer) {
  NodeId node = peer.address.node;
  openings_.erase(node);
  failures_.erase(node);
  if (auto offered = offered_.find(node); offered != offered_.end()) {
    channels_.erase(offered->second);
    offered_.erase(offered);
  }
  tickets_.forget(node);
}

void BulkLane::on_forgotten(std::uint64_t nonce) {
  channels_.erase(nonce);
}

Result<void> BulkLane::test_door() const {
  if (endpoints().empty()) return {};
  Socket stranger(context_, ZMQ_DEALER);
  stranger.set_bytes(ZMQ_PLAIN_USERNAME, as_bytes("gpunode"));
  stranger.set_bytes(ZMQ_PLAIN_PASSWORD, as_bytes("no ticket"));
  return expect_refusal(context_, stranger, endpoints().front());
}

}  // namespace gpunode::transport::detail
