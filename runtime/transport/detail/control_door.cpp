#include "runtime/transport/detail/control_door.hpp"

#include <poll.h>

#include <algorithm>

#include "runtime/transport/detail/tcp.hpp"

namespace gpunode::transport::detail {

ControlDoor::ControlDoor(const MeshLinkOptions& options)
    : options_(options), domain_(options.node.text()) {
  zmq_curve_keypair(stranger_public_.data(), stranger_secret_.data());
  zmq_z85_decode(reinterpret_cast<std::uint8_t*>(stranger_key_.data()), stranger_public_.data());
  open_door(domain_, [this](const Knock& knock) { return answer(knock); });
}

ControlDoor::~ControlDoor() {
  close_door(domain_);
}

// A client that is refused with 400 is told and never tries again; after 300 it does so by itself.
KnockAnswer ControlDoor::answer(const Knock& knock) const {
  CurveKey key;
  if (knock.mechanism != "CURVE" || knock.key.size() != key.size()) return {kNeverAgain, ""};
  std::ranges::copy(knock.key, key.begin());
  if (key == stranger_key_) return {kNeverAgain, ""};
  const KeyVerdict verdict = options_.admit ? options_.admit(key) : KeyVerdict{};
  switch (verdict.answer) {
    case KeyVerdict::Answer::accepted:
      return {200, verdict.node.text()};
    case KeyVerdict::Answer::unknown:
      return {300, ""};
    case KeyVerdict::Answer::revoked:
      break;
  }
  return {kNeverAgain, ""};
}

Result<void> ControlDoor::guard(Socket& inbox, const CurveKey& secret) const {
  if (!inbox.set(kZapEnforceDomain, 1))
    return {ErrorCode::internal, "this libzmq cannot enforce its ZAP domain"};
  inbox.set(ZMQ_CURVE_SERVER, 1);
  inbox.set_bytes(ZMQ_CURVE_SECRETKEY, secret);
  inbox.set_bytes(ZMQ_ZAP_DOMAIN, as_bytes(domain_));
  return {};
}

Result<void> ControlDoor::test(const std::string& endpoint) const {
  Socket stranger(control_context(), ZMQ_DEALER);
  zmq_setsockopt(stranger.raw(), ZMQ_CURVE_PUBLICKEY, stranger_public_.data(), 41);
  zmq_setsockopt(stranger.raw(), ZMQ_CURVE_SECRETKEY, stranger_secret_.data(), 41);
  stranger.set_bytes(ZMQ_CURVE_SERVERKEY, options_.curve_public_key);
  stranger.set(ZMQ_RECONNECT_IVL, -1);
  Monitor monitor(control_context(), stranger);
  stranger.connect(endpoint);
  Result<void> result{ErrorCode::internal, "the allow-list of " + endpoint + " does not answer"};
  bool over = false;
  for (int round = 0; round < 50 && !over; ++round) {
    while (auto event = monitor.next()) {
      const bool in = event->event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
      over = in || event->event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
      if (!over) continue;
      result = {};
      if (in)
        result = {ErrorCode::internal, "the allow-list of " + endpoint + " lets strangers in"};
      break;
    }
    pollfd waiting{monitor.fd(), POLLIN, 0};
    if (!over && !(monitor.events() & ZMQ_POLLIN)) ::poll(&waiting, 1, 100);
  }
  monitor.stop(stranger);
  return result;
}

}  // namespace gpunode::transport::detail
