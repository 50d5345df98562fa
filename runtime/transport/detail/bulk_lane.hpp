// BulkLane: the lane of gradients, state and checkpoints, over bare TCP (bulk_stream.hpp says why).
// A session is opened by the first message:
//   dialler  -> listener  bulk_request  (control)  key share
//   listener -> dialler   bulk_ticket   (control)  key share, nonce, one-time ticket
//   dialler  -> listener  a connection that begins with the ticket; then hello, welcome
// A node without an address of the peer sends bulk_want and is dialled. What is sent meanwhile
// waits within the peer's budget; if no session comes about it is lost and reported as reset.
//
// A connection:
//   knock    | its ticket was given out     | guest, with the keys of that ticket
//   guest    | hello opens under those keys | session, welcome is sent; or not_yet, and closed
//   dialling | TCP stands                   | ticket and hello are sent
//            | welcome                      | session; closed, refused, late, not_yet: tried again
//   session  | closed, gap, bad bytes, newer hello | gone; on_state(reset)
// Of two hellos that cross, that of the smaller id wins. Everything runs on the lane's one thread,
// messages are delivered on it: what was just read is in its core's cache.
#pragma once

#include <map>
#include <unordered_map>

#include "runtime/security/bulk_tickets.hpp"
#include "runtime/transport/detail/acceptor.hpp"
#include "runtime/transport/detail/bulk_stream.hpp"
#include "runtime/transport/detail/dial_attempts.hpp"
#include "runtime/transport/detail/outbound.hpp"
#include "runtime/transport/detail/reactor.hpp"
#include "runtime/transport/zmq_link.hpp"

namespace gpunode::transport::detail {

class BulkLane {
 public:
  using PostFn = std::function<void(const NodeId&, const Envelope&)>;
  BulkLane(const ZmqLinkOptions& options, const LinkEvents& events, PostFn post_over_control);

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

  // From the control lane's thread.
  void control_changed(const NodeId& node, bool up, Boot boot);
  void post_envelope(const NodeId& from, const Envelope& envelope);

  // Knocks with a ticket that nobody gave out. Fails with internal unless it is refused.
  Result<void> test_door() const;

 private:
  static constexpr std::size_t kTicketBytes = 64;  // what a connection begins with

  // A connection that was accepted and has not shown a ticket yet.
  struct Knock {
    SharedDescriptor fd;
    std::uint64_t watch = 0;
    std::array<std::byte, kTicketBytes> ticket{};
    std::size_t filled = 0;
  };
  enum class Role { guest, dial, session };
  struct Connection {
    BulkStream stream;
    Role role;
    std::uint64_t watch = 0;
    std::uint64_t seq_in = 0, seq_out = 0;
    std::size_t sending = 0;  // bytes of the message that is being written
  };
  // Up to the connection's first bytes.
  struct Dial {
    std::uint64_t nonce = 0;
    std::string ticket;
    SharedDescriptor fd;
    std::uint64_t watch = 0;
  };
  struct Opening {
    std::uint64_t attempt = 0;
    std::optional<security::EphemeralKey> key;  // none: we asked to be dialled
  };
  struct Peer {
    PeerAddress address;
    std::shared_ptr<Outbound> outbound;
    std::optional<Opening> opening;
    std::optional<Dial> dial;
    std::uint64_t hello = 0;    // nonce of the connection that awaits a welcome; 0: none
    std::uint64_t session = 0;  // nonce; 0: none
    std::uint64_t offered = 0;  // nonce of the ticket that is out and no session yet; 0: none
    std::uint64_t seen_boot = 0;
    std::uint64_t seen_order = 0;
    DialAttempts attempts;
    int failures = 0;  // to open a session for what waits
    bool redial_pending = false;
  };

  // Opening (bulk_lane.cpp).
  Peer* find(const NodeId& node);
  void report(const Peer& peer, LinkState state);
  void seek(Peer& peer);
  void ask_to_dial(Peer& peer);
  void give_up_or_retry(Peer& peer);
  void schedule_redial(Peer& peer);
  void take_request(Peer& peer, const Envelope& request);
  void take_ticket(Peer& peer, const Envelope& ticket);
  void withdraw_offer(Peer& peer);
  bool set_keys(BulkChannel& channel, const security::EphemeralKey& mine, const Envelope& request,
                const Envelope& ticket, bool dialler);

  // Connections (bulk_sessions.cpp).
  void start_dial(Peer& peer, std::uint64_t nonce, const std::string& ticket);
  void connect(Peer& peer, const SocketAddress& address);
  void on_connected(const NodeId& node, std::uint64_t nonce);
  void fail_dial(Peer& peer, bool refused);
  void close_dial(Peer& peer);
  void take_knock(int fd);
  void service_knock(std::uint64_t number);
  void admit(std::uint64_t number);
  void drop_knock(std::uint64_t number);
  Connection* find_connection(std::uint64_t nonce);
  Connection* add_connection(std::uint64_t nonce, SharedDescriptor fd, Role role);
  void close_connection(std::uint64_t nonce);
  void lose(std::uint64_t nonce);
  void service(std::uint64_t nonce);
  void take(Connection& connection, BulkMessage message);
  void take_hello(Connection& guest, const Envelope& hello);
  void take_data(Peer& peer, Connection& session, BulkMessage message);
  bool say(Connection& connection, Envelope envelope);
  void open_session(Peer& peer, Connection& connection);
  void end_session(Peer& peer);
  void break_session(Peer& peer);
  void flush(Peer& peer);
  void service_peer(const NodeId& node);
  void close_all();

  const ZmqLinkOptions& options_;
  const LinkEvents& events_;
  PostFn post_over_control_;
  Reactor reactor_;
  Reactor resolver_;  // asks the system for names, which blocks; runs from the first on
  bool resolves_ = false;
  Outbounds outbounds_;
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
  security::BulkTickets tickets_;

  std::vector<std::string> endpoints_;
  std::vector<std::unique_ptr<Acceptor>> doors_;
  std::string system_pacing_;              // TCP's congestion control as the system has it
  std::map<std::uint64_t, Knock> knocks_;  // oldest first
  std::map<NodeId, Peer> peers_;
  std::unordered_map<std::uint64_t, BulkChannel> channels_;  // by nonce, until they are connected
  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_;  // by nonce
  std::uint64_t next_attempt_ = 1;
  std::uint64_t next_knock_ = 1;
  std::uint64_t order_ = 0;  // of our last hello or welcome
  bool closing_ = false;

  std::atomic<std::uint64_t> sent_{0}, received_{0}, bytes_sent_{0}, bytes_received_{0};
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace gpunode::transport::detail
