// ControlLane: the lane of small messages. CURVE proves both ends; the allow-list decides who gets
// in; every peer with an address is dialled at once and again after a break. It also carries the
// key shares and tickets of the bulk lane.
#pragma once

#include "runtime/transport/detail/lane_loop.hpp"

namespace gpunode::transport::detail {

class ControlLane final : public LaneLoop {
 public:
  // What the bulk lane is told, on this lane's thread.
  struct Bulk {
    std::function<void(const NodeId&, bool up, Boot boot)> on_control;
    std::function<void(const NodeId&, const Envelope&)> on_envelope;
  };

  ControlLane(const ZmqLinkOptions& options, const LinkEvents& events);
  ~ControlLane() override;
  void tell(Bulk bulk) { bulk_ = std::move(bulk); }

  // Any thread: sends a bulk lane's envelope to the peer; lost if there is no session.
  void post_envelope(const NodeId& to, const Envelope& envelope);

  // Knocks with a key that nobody knows. Fails with internal unless it is refused.
  Result<void> test_door() const;

 protected:
  void configure_inbox(Socket& inbox) override;
  void configure_dial(Socket& socket, const Peer& peer) override;
  const std::vector<std::string>& endpoints_of(const Peer& peer) const override {
    return peer.address.control_endpoints;
  }
  Frames pack(const Envelope& envelope, ByteView body, const SharedBytes& payload) override;
  Unpacked unpack(Frame& frame, Incoming& into) override;
  void seek(Peer& peer) override;
  void on_broken(Peer& peer) override;
  void on_dial_failed(Peer& peer, bool) override { schedule_redial(peer); }
  void on_open(Peer& peer) override;
  void on_dropped(Peer& peer) override;
  void on_internal(Peer& peer, const Envelope& envelope) override;
  std::size_t max_handshakes() const override { return 64; }  // of 1 MiB
  bool can_queue(const Outbound& outbound, const Message& message) const override;

 private:
  KnockAnswer answer(const Knock& knock) const;

  Bulk bulk_;
  std::string domain_;
  std::array<char, 41> test_public_{};  // the stranger of test_door()
  std::array<char, 41> test_secret_{};
  CurveKey test_key_{};
};

// Opens a connection with `socket`, already configured, and waits until the door has answered.
// Fails with internal when it was let in or got no answer.
Result<void> expect_refusal(void* context, Socket& socket, const std::string& endpoint);

}  // namespace gpunode::transport::detail
