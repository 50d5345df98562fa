// BulkLane: the lane of gradients, state and checkpoints, over bare TCP (bulk_stream.hpp says why).
// A session is opened by the first message:
//   dialler  -> listener  bulk_request  (control)  key share
//   listener -> dialler   bulk_ticket   (control)  key share, nonce, one-time ticket
//   dialler  -> listener  a connection that begins with the ticket; then hello, welcome
// A node without an address of the peer sends bulk_want and is dialled. What is sent meanwhile
// waits within the peer's budget; if no session comes about it is lost and reported as reset.
// Keys are agreed over control, where CURVE has proven who is who: bulk proves nobody anew.
//
// A connection:
//   guest    | hello opens under its ticket's keys | session, welcome is sent; or not_yet; closed
//   dialling | TCP stands                          | ticket and hello are sent
//            | welcome                             | session
//            | closed, refused, late, not_yet      | tried again
//   session  | closed, gap, bad bytes, newer hello | gone; on_state(reset)
// Of two hellos that cross, that of the smaller id wins. Everything runs on the lane's one thread,
// messages are delivered on it: what was just read is in its core's cache.
#pragma once

#include "runtime/transport/detail/bulk_door.hpp"
#include "runtime/transport/detail/bulk_stream.hpp"
#include "runtime/transport/detail/peer_lane.hpp"

namespace gpunode::transport::detail {

struct BulkConnection {
  enum class Role { guest, dial, session };
  BulkStream stream;
  Role role;
  std::uint64_t watch = 0;
  std::uint64_t seq_in = 0;
  std::uint64_t seq_out = 0;  // of who writes, like the stream's writing half
  bool held_back = false;     // not read for a moment
};

// On the way to a ticket.
struct BulkOpening {
  std::uint64_t attempt = 0;
  std::optional<security::EphemeralKey> key;  // none: we asked to be dialled
};

// Up to the connection's first bytes.
struct BulkDial {
  std::uint64_t nonce = 0;
  std::string ticket;
  SharedDescriptor fd;
  std::uint64_t watch = 0;
};

struct BulkPeer : LanePeer {
  std::optional<BulkOpening> opening;
  std::optional<BulkDial> dial;
  std::uint64_t hello = 0;    // nonce of the connection that awaits a welcome; 0: none
  std::uint64_t session = 0;  // nonce; 0: none
  std::uint64_t offered = 0;  // nonce of the ticket that is out and no session yet; 0: none
  std::uint64_t guest = 0;    // nonce of the connection that has shown one last
  int failures = 0;           // to open a session for what waits
};

class BulkLane final : public PeerLane<BulkPeer> {
 public:
  using PostFn = std::function<void(const NodeId&, const Envelope&)>;
  BulkLane(const MeshLinkOptions& options, const LinkEvents& events, PostFn post_over_control);

  // Before start().
  Result<void> listen(const std::vector<std::string>& endpoints) { return door_.listen(endpoints); }
  const std::vector<std::string>& endpoints() const { return door_.endpoints(); }
  void start();
  // Any thread: a short message that somebody waits for. False: control brings it sooner.
  bool send_soon(const NodeId& to, const Message& message);
  // Closes all in its thread and joins it.
  void stop();
  // Knocks with a ticket that nobody gave out. Fails with internal unless it is refused.
  Result<void> test_door() const { return door_.test(); }
  LinkCounters counters() const;

  // From the control lane's thread.
  void on_control(const NodeId& node, bool up, Boot boot);
  void take_envelope(const NodeId& from, const Envelope& envelope);

 private:
  using Role = BulkConnection::Role;

  // Sessions and what flows in them (bulk_lane.cpp).
  bool is_idle(const BulkPeer& peer) const override {
    return !peer.session && !peer.dial && !peer.hello;
  }
  void forget(BulkPeer& peer) override { withdraw_offer(peer); }
  void end_session(BulkPeer& peer) override;
  void break_session(BulkPeer& peer, bool tell_peer) override;
  void service_peer(const NodeId& node) override;
  BulkConnection* find_connection(std::uint64_t nonce);
  BulkConnection* add_connection(std::uint64_t nonce, SharedDescriptor fd, Role role);
  void close_connection(std::uint64_t nonce);
  void lose(std::uint64_t nonce);
  void service(std::uint64_t nonce);
  bool is_held_back(BulkConnection& connection);
  void take(BulkConnection& connection, WireMessage message);
  void take_hello(BulkConnection& guest, const Envelope& hello);
  bool say(BulkConnection& connection, Kind kind);
  void open_session(BulkPeer& peer, BulkConnection& connection);
  bool begin(BulkConnection& session, const Message& message);
  Outbox::Write write_on(const BulkConnection& session);
  void flush(BulkPeer& peer);

  // How one comes about (bulk_opening.cpp).
  void seek(BulkPeer& peer) override;
  void close_dial(BulkPeer& peer) override;
  void open_by(BulkPeer& peer, Envelope request, std::optional<security::EphemeralKey> key);
  void ask_to_dial(BulkPeer& peer);
  void give_up_or_retry(BulkPeer& peer);
  void give_up(BulkPeer& peer);
  void take_request(BulkPeer& peer, const Envelope& request);
  void take_ticket(BulkPeer& peer, const Envelope& ticket);
  void withdraw_offer(BulkPeer& peer);
  bool set_keys(BulkChannel& channel, const security::EphemeralKey& mine, const Envelope& request,
                const Envelope& ticket, bool dialler);
  void start_dial(BulkPeer& peer, std::uint64_t nonce, const std::string& ticket);
  void connect(BulkPeer& peer, const SocketAddress& address);
  void on_connected(const NodeId& node, std::uint64_t nonce);
  void fail_dial(BulkPeer& peer, bool refused);
  void admit(SharedDescriptor fd, const security::TicketOwner& owner);

  const PostFn post_over_control_;
  Reactor resolver_;  // asks the system for names, which blocks; runs from the first on
  bool resolves_ = false;
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
  BulkDoor door_;
  std::unordered_map<std::uint64_t, BulkChannel> channels_;  // by nonce, until they are connected
  // By nonce. Who writes on another thread keeps its own alive meanwhile.
  std::unordered_map<std::uint64_t, std::shared_ptr<BulkConnection>> connections_;
  std::uint64_t next_attempt_ = 1;
  std::atomic<Duration::rep> last_soon_{0};
};

}  // namespace gpunode::transport::detail
