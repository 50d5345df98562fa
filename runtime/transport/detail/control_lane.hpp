// ControlLane: the lane of small messages, a thread that owns the inbox (ROUTER), one DEALER for
// each peer that it dials, and the sessions over both. CURVE proves both ends; the allow-list
// decides who gets in; every peer with an address is dialled at once and again after a break. It
// also carries the key shares and tickets of the bulk lane.
//
// A peer:
//   state      | event                          | next
//   idle       | an address is known            | dialling
//   dialling   | handshake done: hello sent     | dialling (hello_sent)
//   dialling   | welcome                        | up (over the DEALER)
//   dialling   | closed, refused, late, not_yet | idle; again after a pause that doubles
//   dialling   | an answer of another version   | the same, and it is told
//   any but up | hello of the peer              | up (over the ROUTER), own dial is closed; but of
//              |                                | two that cross, that of the smaller id wins
//   up         | closed, gap, bad frame, newer hello | idle; on_state(reset)
// hello and welcome carry a number that their sender only raises, so one that was overtaken by a
// later one is known to be old.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "runtime/transport/detail/dial_attempts.hpp"
#include "runtime/transport/detail/envelope_codec.hpp"
#include "runtime/transport/detail/outbound.hpp"
#include "runtime/transport/detail/reactor.hpp"
#include "runtime/transport/detail/zap_door.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"
#include "runtime/transport/zmq_link.hpp"

namespace gpunode::transport::detail {

class ControlLane {
 public:
  // What the bulk lane is told, on this lane's thread.
  struct Bulk {
    std::function<void(const NodeId&, bool up, Boot boot)> on_control;
    std::function<void(const NodeId&, const Envelope&)> on_envelope;
  };

  ControlLane(const ZmqLinkOptions& options, const LinkEvents& events);
  ~ControlLane();
  void tell(Bulk bulk) { bulk_ = std::move(bulk); }

  // Before start().
  Result<void> listen(const std::vector<std::string>& endpoints);
  const std::vector<std::string>& endpoints() const { return endpoints_; }
  void start();
  // Closes all in its thread and joins it.
  void stop();

  // Any thread.
  void set_peer(const PeerAddress& address);
  void drop_peer(const NodeId& node);
  Result<void> send(const NodeId& to, Message message);
  LinkCounters counters() const;
  // Sends a bulk lane's envelope to the peer; lost if there is no session.
  void post_envelope(const NodeId& to, const Envelope& envelope);

  // Knocks with a key that nobody knows. Fails with internal unless it is refused.
  Result<void> test_door() const;

 private:
  struct Dial {
    std::uint64_t id = 0;
    std::uint64_t nonce = 0;  // of the session that it asks for
    std::string endpoint;
    Socket socket;
    Monitor monitor;
    std::uint64_t socket_watch = 0;
    std::uint64_t monitor_watch = 0;
    bool connected = false;   // TCP
    bool handshaken = false;  // ZeroMQ
    bool hello_sent = false;
  };

  struct Session {
    std::uint64_t nonce = 0;
    bool dialled = false;  // over the peer's Dial, else over `route`
    Bytes route;
    int source_fd = -1;  // as the monitor names it
    int own_fd = -1;     // a duplicate, by which the connection can be shut
    std::uint64_t seq_in = 0;
    std::uint64_t seq_out = 0;
  };

  struct Peer {
    PeerAddress address;
    std::shared_ptr<Outbound> outbound;
    std::unique_ptr<Dial> dial;
    std::optional<Session> session;
    std::uint64_t seen_boot = 0;
    std::uint64_t seen_order = 0;
    DialAttempts attempts;
    Time opened{};  // the last session
    bool redial_pending = false;
    std::uint16_t other_major = 0;  // of its protocol, where that is not ours and was told
  };

  // One message as it came in.
  struct Incoming {
    Envelope envelope;
    Bytes body;
    SharedBytes payload;
    std::uint16_t other_major = 0;
  };
  enum class Unpacked : std::uint8_t {
    message,
    bad,            // ends the session
    other_version,  // of a node whose protocol is not ours: other_major
  };
  enum class Flushed { all, blocked, broken };

  // Who gets in, and the form of frames (control_door.cpp).
  KnockAnswer answer(const Knock& knock) const;
  void configure_inbox(Socket& inbox);
  void configure_dial(Socket& socket, const Peer& peer);
  static Frame pack(const Envelope& envelope, ByteView body, const SharedBytes& payload);
  static Unpacked unpack(Frame& frame, Incoming& into);

  // Peers, sessions and what is sent (control_lane.cpp).
  Peer* find(const NodeId& node);
  void report(const Peer& peer, LinkState state);
  void report_version(Peer& peer, std::uint16_t theirs);
  void open_session(Peer& peer, Session session);
  void end_session(Peer& peer);
  void break_session(Peer& peer, bool tell_peer);
  void on_broken(Peer& peer);
  void take_session(Peer& peer, Incoming incoming);
  void service_peer(const NodeId& node);
  Flushed flush(Peer& peer);
  // Sends with a place in the session's sequence; false: not now.
  bool send_internal(Peer& peer, Envelope envelope);
  Sent transmit(Peer& peer, Envelope envelope, ByteView body, const SharedBytes& payload);
  static Sent send_frame(Frame frame, Socket& socket, const Bytes* route);
  void close_all();

  // Dialling (control_dial.cpp).
  void start_dial(Peer& peer);
  void close_dial(Peer& peer);
  void fail_dial(Peer& peer, bool refused);
  void schedule_redial(Peer& peer);
  void service_dial(const NodeId& node, std::uint64_t dial_id);
  void service_monitor(const NodeId& node, std::uint64_t dial_id);
  bool drain_dial(Peer& peer, std::uint64_t dial_id);
  bool take_dial_event(Peer& peer, std::uint64_t dial_id, const MonitorEvent& event);
  Dial* current(const NodeId& node, std::uint64_t dial_id);
  void try_hello(Peer& peer);
  void probe_refusal(const NodeId& node, const std::string& endpoint);

  // The inbox (control_inbox.cpp).
  void service_inbox();
  void read_inbox_monitor();
  void apply_disconnects();
  void begin_handshake(int fd);
  void end_handshake(int fd);
  void take_inbox(Frames& parts);
  void accept(Peer& peer, const Envelope& hello, Frames& parts);
  void answer_not_yet(const Envelope& hello, Frames& parts);

  void* const context_ = control_context();
  const ZmqLinkOptions& options_;
  const LinkEvents& events_;
  Bulk bulk_;
  Reactor reactor_;
  Outbounds outbounds_;
  std::map<NodeId, Peer> peers_;
  std::uint64_t next_dial_ = 1;
  std::uint64_t order_ = 0;  // of our last hello or welcome
  bool closing_ = false;

  Socket inbox_;
  Monitor inbox_monitor_;
  std::vector<std::string> endpoints_;
  std::vector<std::uint16_t> ports_;
  std::unordered_map<int, NodeId> session_of_fd_;
  std::vector<int> disconnected_;
  std::deque<std::pair<int, int>> handshakes_;  // the monitor's descriptor, our duplicate

  std::string domain_;
  std::array<char, 41> test_public_{};  // the stranger of test_door()
  std::array<char, 41> test_secret_{};
  CurveKey test_key_{};

  std::atomic<std::uint64_t> sent_{0}, received_{0}, bytes_sent_{0}, bytes_received_{0};
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace gpunode::transport::detail
