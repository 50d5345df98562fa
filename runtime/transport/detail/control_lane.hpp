// ControlLane: the lane of small messages, a thread that reads the inbox (ROUTER) and one DEALER for
// each peer that it dials, and keeps the sessions over both; whoever sends does so on its own thread
// where nothing waits before it (control_wire.hpp). CURVE proves both ends; ControlDoor decides
// who gets in; every peer with an address is dialled at once and again after a break. It also
// carries the key shares and tickets of the bulk lane.
//
// A peer:
//   state      | event                               | next
//   idle       | an address is known                 | dialling
//   dialling   | handshake done: hello sent          | dialling (hello_sent)
//   dialling   | welcome                             | up (over the DEALER)
//   dialling   | closed, refused, late, not_yet      | idle; again after a pause that doubles
//   dialling   | an answer of another version        | the same, and it is told
//   any but up | hello of the peer                   | up (over the ROUTER), own dial is closed
//              | hello that crosses our own          | the same; not_yet, if our id is the smaller
//   up         | closed, gap, bad frame, newer hello | idle; on_state(reset)
// hello and welcome carry a number that their sender only raises, so one that was overtaken by a
// later one is known to be old. A peer is what the User-Id says that our own door gave out with its
// key; the routing id that it sends is ignored, and `route` is a number that the inbox has given to
// the connection (ignore_routing_ids).
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "runtime/security/address_quota.hpp"
#include "runtime/security/rate_limit.hpp"
#include "runtime/transport/detail/control_door.hpp"
#include "runtime/transport/detail/control_wire.hpp"
#include "runtime/transport/detail/peer_lane.hpp"
#include "runtime/transport/detail/tcp.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"

namespace gpunode::transport::detail {

struct ControlDial {
  std::uint64_t id = 0;
  std::uint64_t nonce = 0;  // of the session that it asks for
  std::string endpoint;
  std::shared_ptr<SharedSocket> socket = {};
  Monitor monitor;
  std::uint64_t socket_watch = 0;
  std::uint64_t monitor_watch = 0;
  bool connected = false;   // TCP
  bool handshaken = false;  // ZeroMQ
  bool hello_sent = false;
};

struct ControlSession {
  std::shared_ptr<ControlWire> wire = {};
  bool dialled = false;              // over the peer's dial, else over the inbox
  int source_fd = -1;                // as the monitor names it
  SharedDescriptor connection = {};  // a duplicate, by which it can be shut: ZeroMQ cannot
  std::uint64_t seq_in = 0;
};

struct ControlPeer : LanePeer {
  std::unique_ptr<ControlDial> dial;
  std::optional<ControlSession> session;
  Time opened{};                  // the last session
  std::uint16_t other_major = 0;  // of its protocol, where that is not ours and was told
  bool older_key = false;         // to be tried in the next dial
  bool shut_out = false;          // that was reported
};

class ControlLane final : public PeerLane<ControlPeer> {
 public:
  // What the bulk lane is told, on this lane's thread.
  struct Bulk {
    std::function<void(const NodeId&, bool up, Boot boot)> on_control;
    std::function<void(const NodeId&, const Envelope&)> on_envelope;
  };

  ControlLane(const MeshLinkOptions& options, const LinkEvents& events, Bulk bulk);

  // Before start().
  Result<void> listen(const std::vector<std::string>& endpoints);
  const std::vector<std::string>& endpoints() const { return endpoints_; }
  void start();
  // Closes all in its thread and joins it.
  void stop();
  // Sends a bulk lane's envelope to the peer; lost if that is not possible now. Any thread.
  void post_envelope(const NodeId& to, const Envelope& envelope);
  // Closes all sessions and opens them again under these keys; the ports stay. Any thread.
  void use_keys(const LinkKeys& keys);
  // Knocks with a key that nobody knows. Fails with internal unless it is refused.
  Result<void> test_door() const;

 private:
  enum class Flushed { all, blocked, broken };

  // Sessions and what is sent (control_lane.cpp).
  bool is_idle(const ControlPeer& peer) const override { return !peer.session && !peer.dial; }
  void forget(ControlPeer& peer) override {
    bulk_.on_control(peer.address.node, false, 0);
    shut_members(peer.address.node);
  }
  void end_session(ControlPeer& peer) override;
  void break_session(ControlPeer& peer, bool tell_peer) override;
  void service_peer(const NodeId& node) override;
  void report_version(ControlPeer& peer, std::uint16_t theirs);
  void open_session(ControlPeer& peer, ControlSession session);
  void on_broken(ControlPeer& peer);
  void take_session(ControlPeer& peer, WireMessage message);
  Flushed flush(ControlPeer& peer);
  Outbox::Direct direct_way(const ControlPeer& peer);

  // Dialling (control_dial.cpp).
  void seek(ControlPeer& peer) override;
  void close_dial(ControlPeer& peer) override;
  void fail_dial(ControlPeer& peer, bool refused);
  bool configure_dial(ControlDial& dial, const ControlPeer& peer);
  void service_dial(const NodeId& node, std::uint64_t dial_id);
  void service_monitor(const NodeId& node, std::uint64_t dial_id);
  bool drain_dial(ControlPeer& peer, std::uint64_t dial_id);
  bool take_dial_event(ControlPeer& peer, std::uint64_t dial_id, const MonitorEvent& event);
  ControlDial* current(const NodeId& node, std::uint64_t dial_id);
  void try_hello(ControlPeer& peer);
  void probe_refusal(const NodeId& node, const std::string& endpoint);

  // The inbox (control_inbox.cpp).
  Result<void> open_inbox(std::vector<std::string>& endpoints);
  void watch_inbox();
  void close_inbox();
  void open_inbox_again();
  void service_inbox();
  void read_inbox_monitor();
  void apply_disconnects();
  void begin_handshake(int fd);
  void end_handshake(int fd);
  void enter_member(int fd, const NodeId& node);
  void leave_member(int fd);
  void shut_members(const NodeId& node);
  void take_hello(const NodeId& origin, const Envelope& hello, Frames& parts);
  void take_inbox(Frames& parts);
  void accept(ControlPeer& peer, const Envelope& hello, Frames& parts);
  void answer_not_yet(const Envelope& hello, Frames& parts);
  Sent send_on(const Frames& asked, const Envelope& envelope);

  const Bulk bulk_;
  const ControlDoor door_;
  LinkKeys keys_;
  std::uint64_t next_dial_ = 1;
  std::shared_ptr<SharedSocket> inbox_;  // null: this node only dials
  Monitor inbox_monitor_;
  std::uint64_t inbox_watch_ = 0, inbox_monitor_watch_ = 0;
  std::vector<std::string> endpoints_;
  std::vector<std::uint16_t> ports_;
  std::unordered_map<int, NodeId> session_of_fd_;
  std::vector<int> disconnected_;
  std::unordered_map<int, SharedDescriptor> handshakes_;  // by the monitor's descriptor
  security::AddressQuota handshake_quota_;
  // Connections that a member has proven its key on, by the monitor's descriptor; and each one's, the oldest
  // first.
  struct MemberConnection {
    NodeId node;
    SharedDescriptor connection;
  };
  std::unordered_map<int, MemberConnection> members_;
  std::map<NodeId, std::vector<int>> fds_of_member_;
  security::RateLimit hellos_, bulk_openings_;  // of a peer
};

}  // namespace gpunode::transport::detail
