// LaneLoop: the thread of one lane of a ZmqLink. It owns the inbox (ROUTER), one DEALER for each
// peer that it dials, and the sessions over both. What differs between control and bulk (who may
// knock, how frames are packed, when to dial) is left to ControlLane and BulkLane.
//
// A peer on one lane:
//   state      | event                          | next
//   idle       | wanted and an address is known | dialling
//   dialling   | handshake done: hello sent     | dialling (hello_sent)
//   dialling   | welcome                        | up (over the DEALER)
//   dialling   | closed, refused, late, not_yet | idle; again after a pause that doubles
//   dialling   | an answer of another version   | the same, and it is told
//   any but up | hello of the peer              | up (over the ROUTER), own dial is closed; but of
//   two
//              |                                | hellos that cross, that of the smaller id wins
//   up         | closed, gap, bad frame, newer hello | idle; on_state(reset)
// hello and welcome carry a number that their sender only raises, so one that was overtaken by a
// later one is known to be old.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "runtime/transport/detail/envelope_codec.hpp"
#include "runtime/transport/detail/outbound.hpp"
#include "runtime/transport/detail/reactor.hpp"
#include "runtime/transport/detail/zap_door.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"
#include "runtime/transport/zmq_link.hpp"

namespace gpunode::transport::detail {

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
  std::size_t next_endpoint = 0;
  std::size_t refusals = 0;  // in a row
  Duration pause{};
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

class LaneLoop {
 public:
  LaneLoop(Lane lane, void* context, const ZmqLinkOptions& options, const LinkEvents& events);
  virtual ~LaneLoop() = default;

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

 protected:
  virtual void configure_inbox(Socket& inbox) = 0;
  virtual void configure_dial(Socket& socket, const Peer& peer) = 0;
  virtual const std::vector<std::string>& endpoints_of(const Peer& peer) const = 0;
  // The frames of one message, in order. Each is sent as a ZeroMQ message of its own, never as a
  // part: libzmq 4.3.4 aborts the process when a connection dies while a socket with half of a
  // multipart message under way is being closed (session_base.cpp, clean_pipes). Empty: the session
  // cannot go on.
  virtual Frames pack(const Envelope& envelope, ByteView body, const SharedBytes& payload) = 0;
  virtual Unpacked unpack(Frame& frame, Incoming& into) = 0;
  // A session is wanted now: dial, or arrange what must come before.
  virtual void seek(Peer& peer) = 0;
  virtual void on_broken(Peer& peer) = 0;
  virtual void on_dial_failed(Peer& peer, bool refused) = 0;
  virtual void on_open(Peer& peer) = 0;
  virtual void on_dropped(Peer& peer) = 0;
  virtual void on_internal(Peer& peer, const Envelope& envelope) = 0;  // bulk_want and the like
  virtual std::size_t max_handshakes() const = 0;  // connections that have not proven a key yet
  virtual bool can_queue(const Outbound& outbound, const Message& message) const = 0;

  Peer* find(const NodeId& node);
  void start_dial(Peer& peer, std::uint64_t nonce);
  void close_dial(Peer& peer);
  void schedule_redial(Peer& peer);
  void end_session(Peer& peer);
  void break_session(Peer& peer, bool tell_peer);
  void report(const Peer& peer, LinkState state);
  // Sends with a place in the session's sequence; false: not now.
  bool send_internal(Peer& peer, Envelope envelope);
  bool listens() const { return static_cast<bool>(inbox_); }
  void service_peer(const NodeId& node);

  const Lane lane_;
  void* const context_;
  const ZmqLinkOptions& options_;
  const LinkEvents& events_;
  Reactor reactor_;
  std::map<NodeId, Peer> peers_;
  bool closing_ = false;
  std::uint64_t order_ = 0;  // of our last hello or welcome
  std::atomic<std::uint64_t> dropped_{0};

 private:
  enum class Flushed { all, blocked, broken };

  void service_dial(const NodeId& node, std::uint64_t dial_id);
  void service_monitor(const NodeId& node, std::uint64_t dial_id);
  bool drain_dial(Peer& peer, std::uint64_t dial_id);
  bool take_dial_event(Peer& peer, std::uint64_t dial_id, const MonitorEvent& event);
  Dial* current(const NodeId& node, std::uint64_t dial_id);
  void try_hello(Peer& peer);
  void fail_dial(Peer& peer, bool refused);
  void probe_refusal(const NodeId& node, const std::string& endpoint);
  void service_inbox();
  void read_inbox_monitor();
  void apply_disconnects();
  void begin_handshake(int fd);
  void end_handshake(int fd);
  void take_inbox(Frames& parts);
  void take_session(Peer& peer, Incoming incoming);
  void accept(Peer& peer, const Envelope& hello, Frames& parts);
  void report_version(Peer& peer, std::uint16_t theirs);
  void answer_not_yet(const Envelope& hello, Frames& parts);
  void open_session(Peer& peer, Session session);
  Flushed flush(Peer& peer);
  Sent send_all(Frames& frames, Socket& socket, const Bytes* route);
  Sent transmit(Peer& peer, Envelope envelope, ByteView body, const SharedBytes& payload);
  void close_all();

  Socket inbox_;
  Monitor inbox_monitor_;
  std::vector<std::string> endpoints_;
  std::unordered_map<int, NodeId> session_of_fd_;
  std::vector<int> disconnected_;
  std::vector<std::uint16_t> ports_;
  std::deque<std::pair<int, int>> handshakes_;  // the monitor's descriptor, our duplicate
  std::uint64_t next_dial_ = 1;

  Outbounds outbounds_;

  std::atomic<std::uint64_t> sent_{0}, received_{0}, bytes_sent_{0}, bytes_received_{0};
};

std::uint64_t random_nonce();

}  // namespace gpunode::transport::detail
