// BulkLane: the lane of gradients, state and checkpoints. A session is opened by the first message:
//   dialler  -> listener  bulk_request  (control)  key share
//   listener -> dialler   bulk_ticket   (control)  key share, nonce, one-time ticket
//   dialler  -> listener  a bulk connection with the ticket as password; then hello, welcome
// A node without an address of the peer sends bulk_want and is dialled. What is sent meanwhile
// waits within the peer's budget; if no session comes about it is lost and reported as reset.
#pragma once

#include "runtime/security/bulk_tickets.hpp"
#include "runtime/transport/detail/bulk_frame.hpp"
#include "runtime/transport/detail/lane_loop.hpp"

namespace gpunode::transport::detail {

class BulkLane final : public LaneLoop {
 public:
  using PostFn = std::function<void(const NodeId&, const Envelope&)>;
  BulkLane(const ZmqLinkOptions& options, const LinkEvents& events, PostFn post_over_control);
  ~BulkLane() override;

  // From the control lane's thread.
  void control_changed(const NodeId& node, bool up, Boot boot);
  void post_envelope(const NodeId& from, const Envelope& envelope);

  // Knocks with a ticket that nobody gave out. Fails with internal unless it is refused.
  Result<void> test_door() const;

 protected:
  void configure_inbox(Socket& inbox) override;
  void configure_dial(Socket& socket, const Peer& peer) override;
  const std::vector<std::string>& endpoints_of(const Peer& peer) const override {
    return peer.address.bulk_endpoints;
  }
  std::optional<Origin> origin_of(const std::string& user_id) override;
  Frames pack(std::uint64_t nonce, const Envelope& envelope, ByteView body,
              const SharedBytes& payload, const std::shared_ptr<Charge>& charge) override;
  Unpacked unpack(std::uint64_t nonce, Frame& frame, Incoming& into) override;
  void seek(Peer& peer) override;
  void on_broken(Peer& peer) override;
  void on_dial_failed(Peer& peer, bool refused) override;
  void on_open(Peer& peer) override;
  void on_dropped(Peer& peer) override;
  void on_forgotten(std::uint64_t nonce) override;
  void on_internal(Peer&, const Envelope&) override {}
  std::size_t max_handshakes() const override { return 8; }  // of 16 MiB
  bool can_queue(const Outbound& outbound, const Message& message) const override;

 private:
  struct Opening {
    std::uint64_t attempt = 0;
    std::optional<security::EphemeralKey> key;  // none: we asked to be dialled
    std::string ticket;
  };

  void take_request(Peer& peer, const Envelope& request);
  void take_ticket(Peer& peer, const Envelope& ticket);
  void give_up_or_retry(Peer& peer);
  bool set_keys(BulkChannel& channel, const security::EphemeralKey& mine, const Envelope& request,
                const Envelope& ticket, bool dialler);

  PostFn post_over_control_;
  std::string domain_;
  security::BulkTickets tickets_;
  std::shared_ptr<SealPool> pool_ = std::make_shared<SealPool>();
  std::unordered_map<std::uint64_t, BulkChannel> channels_;  // by session
  std::unordered_map<NodeId, std::uint64_t> offered_;        // ticket out, not yet a session
  std::unordered_map<NodeId, Opening> openings_;
  std::unordered_map<NodeId, int> failures_;
  std::uint64_t next_attempt_ = 1;
};

}  // namespace gpunode::transport::detail
