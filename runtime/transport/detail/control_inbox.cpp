// The listening half of the control lane: the inbox, who opens sessions through it, and what
// becomes of the connections behind it.
#include <sys/socket.h>

#include <algorithm>

#include "runtime/transport/detail/control_frame.hpp"
#include "runtime/transport/detail/control_lane.hpp"

namespace gpunode::transport::detail {

namespace {

constexpr int kBatch = 256;           // messages taken before other sockets get their turn
constexpr std::size_t kMaxParts = 3;  // route, frame, and one more to know a wrong one

}  // namespace

// Gives each endpoint its true port. After a failure there is no inbox.
Result<void> ControlLane::open_inbox(std::vector<std::string>& endpoints) {
  auto shared = std::make_shared<SharedSocket>(Socket(control_context(), ZMQ_ROUTER));
  if (!*shared) return {ErrorCode::resource_exhausted, "ZeroMQ has no sockets left"};
  Socket& inbox = shared->own();
  set_tcp_options(inbox);
  set_frame_limits(inbox, kMaxFrameBytes);
  inbox.set(ZMQ_ROUTER_MANDATORY, 1);  // a ROUTER else throws away in silence what it cannot send
  if (auto guarded = door_.guard(inbox, keys_.now.secret); !guarded) return guarded;
  Monitor monitor(control_context(), inbox);
  for (std::string& endpoint : endpoints) {
    auto bound = inbox.bind(endpoint);
    if (!bound) {
      shared->close(monitor);
      return bound.error();
    }
    endpoint = *bound;
  }
  if (!ignore_routing_ids(inbox)) {
    shared->close(monitor);
    return {ErrorCode::internal, "this libzmq cannot ignore what peers call themselves"};
  }
  inbox_ = std::move(shared);
  inbox_monitor_ = std::move(monitor);
  return {};
}

void ControlLane::watch_inbox() {
  inbox_->look = [this] { service_inbox(); };
  inbox_watch_ =
      reactor_.watch(inbox_->own().fd(), Reactor::Wanted::reading, [this] { service_inbox(); });
  auto hear = [this] {
    if (!inbox_) return;
    read_inbox_monitor();
    service_inbox();  // what came before the break still counts
    apply_disconnects();
  };
  inbox_monitor_watch_ = reactor_.watch(inbox_monitor_.fd(), Reactor::Wanted::reading, hear);
  reactor_.post(hear);  // ZMQ_FD tells only of changes
}

void ControlLane::close_inbox() {
  reactor_.unwatch(inbox_watch_);
  reactor_.unwatch(inbox_monitor_watch_);
  for (const auto& [fd, connection] : handshakes_) {
    ::shutdown(*connection, SHUT_RDWR);
    handshake_quota_.leave(static_cast<std::uint64_t>(fd));
  }
  handshakes_.clear();
  for (const auto& [fd, member] : members_) ::shutdown(*member.connection, SHUT_RDWR);
  members_.clear();
  fds_of_member_.clear();
  disconnected_.clear();
  inbox_->close(inbox_monitor_);
  inbox_.reset();
}

// ZeroMQ gives a port back some time after its socket was closed.
void ControlLane::open_inbox_again() {
  constexpr Duration kPause = std::chrono::milliseconds(5);
  if (closing_) return;
  if (open_inbox(endpoints_)) return watch_inbox();
  reactor_.after(kPause, [this] { open_inbox_again(); });
}

void ControlLane::accept(ControlPeer& peer, const Envelope& hello, Frames& parts) {
  if (!is_newest(peer, hello)) return answer_not_yet(hello, parts);
  const bool mine_wins =
      !peer.session && peer.dial && peer.dial->hello_sent && options_.node < peer.address.node;
  if (mine_wins) return answer_not_yet(hello, parts);
  if (peer.session) {
    end_session(peer);
    report(peer, LinkState::reset);
  }
  close_dial(peer);

  ControlSession session;
  session.wire = std::make_shared<ControlWire>(inbox_, to_bytes(parts[0].view()), hello.session,
                                               options_.boot);
  session.source_fd = parts.back().source_fd();
  if (const auto member = members_.find(session.source_fd); member != members_.end())
    session.connection = member->second.connection;
  if (send_on(parts, greeting(Kind::welcome, hello.session)) != Sent::yes) return on_broken(peer);
  open_session(peer, std::move(session));
}

void ControlLane::answer_not_yet(const Envelope& hello, Frames& parts) {
  (void)send_on(parts, greeting(Kind::not_yet, hello.session));
}

// Over the connection that `asked` came by.
Sent ControlLane::send_on(const Frames& asked, const Envelope& envelope) {
  Frames parts;
  parts.emplace_back(asked[0].view());
  parts.push_back(pack_frame(envelope));
  return inbox_->send(parts);
}

void ControlLane::service_inbox() {
  for (int i = 0; inbox_ && i < kBatch; ++i) {
    Frames parts = inbox_->receive(kMaxParts);
    if (parts.empty()) {
      if (inbox_->events() & ZMQ_POLLIN) continue;
      return;
    }
    take_inbox(parts);
  }
  if (inbox_) reactor_.post([this] { service_inbox(); });
}

void ControlLane::take_inbox(Frames& parts) {
  // Whose connection it came by: the User-Id that our own door gave out. Of the last part, as the
  // first one may come without (libzmq 4.3.4).
  std::optional<NodeId> origin;
  if (parts.size() == 2) origin = NodeId::parse(parts.back().property("User-Id"));
  ControlPeer* peer = origin ? find(*origin) : nullptr;
  WireMessage message;
  std::uint16_t other_major = 0;
  const Unpacked unpacked =
      origin ? unpack_frame(parts.back(), message, other_major) : Unpacked::bad;
  const bool of_session = peer && peer->session && !peer->session->dialled &&
                          std::ranges::equal(peer->session->wire->route(), parts[0].view());
  if (unpacked == Unpacked::other_version && !of_session) {
    ++dropped_;
    if (peer) report_version(*peer, other_major);
    // Any frame of ours tells the peer why.
    return answer_not_yet({}, parts);
  }
  if (unpacked != Unpacked::message) {
    drop(peer, Dropped::unreadable);
    if (of_session) break_session(*peer, true);
    return;
  }
  if (message.envelope.kind == Kind::hello) return take_hello(*origin, message.envelope, parts);
  if (!of_session) return drop(peer, Dropped::out_of_session);
  take_session(*peer, std::move(message));
}

void ControlLane::take_hello(const NodeId& origin, const Envelope& hello, Frames& parts) {
  read_inbox_monitor();  // the descriptor of an older connection may be in use again
  apply_disconnects();
  const int fd = parts.back().source_fd();
  enter_member(fd, origin);
  ControlPeer* peer = find(origin);
  if (!hellos_.allow(as_text(origin.value), reactor_.now())) {
    if (const auto found = members_.find(fd); found != members_.end())
      ::shutdown(*found->second.connection, SHUT_RDWR);
    return drop(peer, Dropped::too_often);
  }
  if (!peer) return answer_not_yet(hello, parts);
  accept(*peer, hello, parts);
}

void ControlLane::read_inbox_monitor() {
  do {
    while (auto event = inbox_monitor_.next()) {
      if (event->event == ZMQ_EVENT_ACCEPTED) {
        begin_handshake(event->value);
      } else if (event->event == ZMQ_EVENT_DISCONNECTED) {
        end_handshake(event->value);
        leave_member(event->value);
        disconnected_.push_back(event->value);
      }
    }
  } while (inbox_monitor_.events() & ZMQ_POLLIN);
}

// Who has not proven a key yet may hold a frame's worth of our memory: only so many may, and only
// from where they may come. (The monitor's own event for a handshake that succeeded does not name the
// connection.)
void ControlLane::begin_handshake(int fd) {
  end_handshake(fd);
  leave_member(fd);
  SharedDescriptor connection = duplicate_connection(fd, ports_);
  const auto from = connection ? peer_of(*connection) : std::nullopt;
  if (!from) return;  // it has gone
  if (!may_enter(*connection, options_.allowed)) {
    ++dropped_;
    ::shutdown(*connection, SHUT_RDWR);
    return;
  }
  handshakes_[fd] = std::move(connection);
  const auto one = handshake_quota_.enter(static_cast<std::uint64_t>(fd), *from);
  if (!one) return;
  ++dropped_;
  const int dropped = static_cast<int>(*one);
  ::shutdown(*handshakes_.at(dropped), SHUT_RDWR);
  end_handshake(dropped);
}

void ControlLane::end_handshake(int fd) {
  if (handshakes_.erase(fd) > 0) handshake_quota_.leave(static_cast<std::uint64_t>(fd));
}

// A member has one session, and may be about to open another by a second connection before the first is
// seen to have broken. What it has beyond that is shut, but for the session.
void ControlLane::enter_member(int fd, const NodeId& node) {
  constexpr std::size_t kConnectionsOfMember = 4;
  const auto known = members_.find(fd);
  if (known != members_.end() && known->second.node == node) return;
  const auto proven = handshakes_.find(fd);
  SharedDescriptor connection =
      proven != handshakes_.end() ? proven->second : duplicate_connection(fd, ports_);
  end_handshake(fd);
  leave_member(fd);
  if (!connection) return;  // it has gone
  members_[fd] = {node, std::move(connection)};
  std::vector<int>& fds = fds_of_member_[node];
  fds.push_back(fd);
  if (fds.size() <= kConnectionsOfMember) return;
  const ControlPeer* peer = find(node);
  const int of_session = peer && peer->session ? peer->session->source_fd : -1;
  const int oldest = *std::ranges::find_if(fds, [&](int one) { return one != of_session; });
  ::shutdown(*members_.at(oldest).connection, SHUT_RDWR);
  leave_member(oldest);
}

void ControlLane::leave_member(int fd) {
  const auto found = members_.find(fd);
  if (found == members_.end()) return;
  const auto of_member = fds_of_member_.find(found->second.node);
  std::erase(of_member->second, fd);
  if (of_member->second.empty()) fds_of_member_.erase(of_member);
  members_.erase(found);
}

// All that it has, whatever came of its sessions.
void ControlLane::shut_members(const NodeId& node) {
  const auto found = fds_of_member_.find(node);
  if (found == fds_of_member_.end()) return;
  for (const int fd : std::vector<int>(found->second)) {
    ::shutdown(*members_.at(fd).connection, SHUT_RDWR);
    leave_member(fd);
  }
}

void ControlLane::apply_disconnects() {
  std::vector<int> fds;
  fds.swap(disconnected_);
  for (int fd : fds) {
    auto found = session_of_fd_.find(fd);
    if (found == session_of_fd_.end()) continue;
    ControlPeer* peer = find(found->second);
    session_of_fd_.erase(found);
    if (peer && peer->session && peer->session->source_fd == fd) break_session(*peer, false);
  }
}

}  // namespace gpunode::transport::detail
