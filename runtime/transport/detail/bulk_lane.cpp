// Peers of the bulk lane, and how a session with one is opened over the control lane.
#include "runtime/transport/detail/bulk_lane.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cstring>

namespace gpunode::transport::detail {

namespace {

constexpr int kMaxFailures = 4;
// A wake-up costs about that much; longer would only take the core from who has work.
constexpr Duration kSpin = std::chrono::microseconds(50);
constexpr Duration kOpenDeadline = std::chrono::seconds(3);
constexpr Duration kDoorPatience = std::chrono::seconds(5);
constexpr std::uint8_t kKeyLane = 0;

}  // namespace

BulkLane::BulkLane(const ZmqLinkOptions& options, const LinkEvents& events,
                   PostFn post_over_control)
    : options_(options), events_(events), post_over_control_(std::move(post_over_control)) {
  reactor_.spin_up_to(kSpin);
}

Result<void> BulkLane::listen(const std::vector<std::string>& endpoints) {
  for (const std::string& endpoint : endpoints) {
    auto listening = listen_tcp(endpoint);
    if (!listening) return listening.error();
    doors_.push_back(std::make_unique<Acceptor>(
        reactor_, *listening, [this](int fd, const SocketAddress&) { take_knock(fd); }));
    system_pacing_ = take_off_pacing(listening->fd);
    endpoints_.push_back(listening->endpoint);
  }
  return {};
}

void BulkLane::start() {
  for (const auto& door : doors_) door->start();
  reactor_.start();
}

void BulkLane::stop() {
  outbounds_.close();
  reactor_.stop([this] { close_all(); });
  resolver_.stop(nullptr);
}

void BulkLane::set_peer(const PeerAddress& address) {
  if (address.node == options_.node) return;
  auto outbound = outbounds_.add(address.node);
  if (!outbound) return;
  reactor_.post([this, address, outbound] {
    Peer& peer = peers_[address.node];
    const bool other_key =
        peer.outbound && peer.address.curve_public_key != address.curve_public_key;
    if (other_key && peer.session) break_session(peer);
    const bool elsewhere = peer.address.bulk_endpoints != address.bulk_endpoints;
    peer.address = address;
    if ((other_key || elsewhere) && !peer.session) close_dial(peer);
    peer.outbound = outbound;
    peer.attempts.hurry(options_.redial_min);
    if (!peer.session && !peer.dial && !peer.hello) seek(peer);
  });
}

void BulkLane::drop_peer(const NodeId& node) {
  if (!outbounds_.remove(node)) return;
  reactor_.post([this, node] {
    Peer* peer = find(node);
    if (!peer) return;
    if (peer->session) end_session(*peer);
    close_dial(*peer);
    discard(*peer->outbound);
    withdraw_offer(*peer);
    peers_.erase(node);
  });
}

Result<void> BulkLane::send(const NodeId& to, Message message) {
  const auto can_queue = [this](const Outbound& outbound, const Message& queued) {
    return outbound.bytes == 0 || outbound.bytes + size_of(queued) <= options_.bulk_budget_bytes;
  };
  return outbounds_.send(Lane::bulk, to, std::move(message), can_queue, [this](const NodeId& node) {
    reactor_.post([this, node] { service_peer(node); });
  });
}

LinkCounters BulkLane::counters() const {
  return {sent_, received_, bytes_sent_, bytes_received_, dropped_};
}

BulkLane::Peer* BulkLane::find(const NodeId& node) {
  auto found = peers_.find(node);
  return found == peers_.end() ? nullptr : &found->second;
}

void BulkLane::report(const Peer& peer, LinkState state) {
  if (!closing_ && events_.on_state) events_.on_state(peer.address.node, Lane::bulk, state);
}

// Opening.

void BulkLane::control_changed(const NodeId& node, bool up, Boot boot) {
  if (auto outbound = outbounds_.find(node)) {
    std::lock_guard lock(outbound->mutex);
    outbound->idle_accepting = up;
    outbound->accepting = up || outbound->open;
  }
  reactor_.post([this, node, up, boot] {
    Peer* peer = find(node);
    if (up) {
      // The peer lives anew; what TCP still holds open leads to its last life.
      if (peer && peer->session && peer->seen_boot < boot) break_session(*peer);
      return;
    }
    tickets_.forget(node);
    if (!peer || peer->session) return;
    // Without control no session comes about: what waits for one is lost.
    peer->opening.reset();
    peer->failures = 0;
    close_dial(*peer);
    bool waiting;
    {
      std::lock_guard lock(peer->outbound->mutex);
      waiting = !peer->outbound->queue.empty();
    }
    discard(*peer->outbound);
    if (waiting) report(*peer, LinkState::reset);
  });
}

void BulkLane::seek(Peer& peer) {
  {
    std::lock_guard lock(peer.outbound->mutex);
    if (peer.outbound->queue.empty()) return;  // opened by the first message
  }
  if (peer.opening) return;
  if (!peer.address.bulk_endpoints.empty()) return ask_to_dial(peer);
  peer.opening.emplace().attempt = next_attempt_++;
  Envelope want;
  want.kind = Kind::bulk_want;
  post_over_control_(peer.address.node, want);
  reactor_.after(kOpenDeadline, [this, node = peer.address.node, attempt = peer.opening->attempt] {
    Peer* late = find(node);
    if (late && late->opening && late->opening->attempt == attempt && !late->session)
      give_up_or_retry(*late);
  });
}

// Asks for a ticket to the peer's bulk port.
void BulkLane::ask_to_dial(Peer& peer) {
  Opening& opening = peer.opening.emplace();
  opening.attempt = next_attempt_++;
  opening.key = security::EphemeralKey::create();
  Envelope request;
  request.kind = Kind::bulk_request;
  request.key_share = opening.key->public_key();
  request.plain = options_.bulk_plain;
  post_over_control_(peer.address.node, request);
  reactor_.after(kOpenDeadline, [this, node = peer.address.node, attempt = opening.attempt] {
    Peer* late = find(node);
    const bool unanswered = late && late->opening && late->opening->attempt == attempt;
    if (unanswered && !late->session && !late->dial && !late->hello) give_up_or_retry(*late);
  });
}

void BulkLane::give_up_or_retry(Peer& peer) {
  peer.opening.reset();
  bool control_up, waiting;
  {
    std::lock_guard lock(peer.outbound->mutex);
    control_up = peer.outbound->idle_accepting;
    waiting = !peer.outbound->queue.empty();
  }
  if (!waiting) return;
  if (control_up && ++peer.failures < kMaxFailures) return schedule_redial(peer);
  peer.failures = 0;
  discard(*peer.outbound);
  report(peer, LinkState::reset);
}

void BulkLane::schedule_redial(Peer& peer) {
  if (peer.redial_pending || closing_) return;
  peer.redial_pending = true;
  const Duration pause =
      peer.attempts.next_pause(peer.address.bulk_endpoints.size(), options_.redial_max);
  reactor_.after(pause, [this, node = peer.address.node] {
    Peer* waiting = find(node);
    if (!waiting) return;
    waiting->redial_pending = false;
    if (!waiting->session && !waiting->dial && !waiting->hello) seek(*waiting);
  });
}

void BulkLane::post_envelope(const NodeId& from, const Envelope& envelope) {
  reactor_.post([this, from, envelope] {
    Peer* peer = find(from);
    if (!peer) return;
    if (envelope.kind == Kind::bulk_request) take_request(*peer, envelope);
    if (envelope.kind == Kind::bulk_ticket) take_ticket(*peer, envelope);
    const bool idle = !peer->session && !peer->dial && !peer->hello && !peer->opening;
    if (envelope.kind == Kind::bulk_want && idle && !peer->address.bulk_endpoints.empty())
      ask_to_dial(*peer);
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

void BulkLane::withdraw_offer(Peer& peer) {
  tickets_.forget(peer.address.node);
  if (peer.offered != 0) channels_.erase(std::exchange(peer.offered, 0));
}

// We are the listener.
void BulkLane::take_request(Peer& peer, const Envelope& request) {
  if (doors_.empty()) return;
  withdraw_offer(peer);
  security::EphemeralKey mine = security::EphemeralKey::create();
  Envelope offer;
  offer.kind = Kind::bulk_ticket;
  offer.stream = security::random_nonce();
  offer.key_share = mine.public_key();
  offer.nonce = security::random_array<16>();
  offer.plain = request.plain && options_.bulk_plain;
  BulkChannel channel;
  channel.peer = peer.address.node;
  if (!set_keys(channel, mine, request, offer, false)) return;
  auto ticket = tickets_.issue({channel.peer, offer.stream}, SystemClock().now());
  if (!ticket) return;
  offer.ticket = *ticket;
  peer.offered = offer.stream;
  channels_.emplace(offer.stream, std::move(channel));
  post_over_control_(peer.address.node, offer);
}

// We are the dialler.
void BulkLane::take_ticket(Peer& peer, const Envelope& ticket) {
  if (!peer.opening || !peer.opening->key || peer.session || peer.dial || peer.hello) return;
  if (ticket.plain && !options_.bulk_plain) return;
  Envelope request;
  request.key_share = peer.opening->key->public_key();
  BulkChannel channel;
  channel.peer = peer.address.node;
  if (!set_keys(channel, *peer.opening->key, request, ticket, true)) return;
  peer.opening->key.reset();
  if (find_connection(ticket.stream) ||
      !channels_.emplace(ticket.stream, std::move(channel)).second)
    return;
  start_dial(peer, ticket.stream, ticket.ticket);
}

Result<void> BulkLane::test_door() const {
  if (endpoints_.empty()) return {};
  const std::string endpoint = reachable(endpoints_.front());
  const auto target = parse_endpoint(endpoint);
  const auto address = target ? numeric_address(*target) : std::nullopt;
  if (!address) return {ErrorCode::internal, endpoint + " is no address"};
  auto connected = connect_within(*address, endpoint, kDoorPatience);
  if (!connected) return connected.error();
  const SharedDescriptor stranger = share_descriptor(*connected);
  std::array<std::byte, kTicketBytes> no_ticket{};
  pollfd waiting{*stranger, POLLIN, 0};
  const auto patience =
      std::chrono::duration_cast<std::chrono::milliseconds>(kDoorPatience).count();
  if (::send(*stranger, no_ticket.data(), no_ticket.size(), MSG_NOSIGNAL) < 0 ||
      ::poll(&waiting, 1, static_cast<int>(patience)) != 1)
    return {ErrorCode::internal, "the door of " + endpoint + " does not answer"};
  std::byte answer;
  if (::recv(*stranger, &answer, 1, 0) > 0)
    return {ErrorCode::internal, "the door of " + endpoint + " lets strangers in"};
  return {};
}

}  // namespace gpunode::transport::detail
