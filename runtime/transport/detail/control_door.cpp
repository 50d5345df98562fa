// The door of the control lane: who gets in, and the form of frames.
#include "runtime/transport/detail/control_lane.hpp"

#include <poll.h>

#include <algorithm>

#include "runtime/transport/detail/tcp.hpp"

namespace gpunode::transport::detail {

namespace {

constexpr std::int64_t kMaxFrameBytes =
    8 + kMaxEnvelopeBytes + kMaxBodyBytes + kMaxControlPayloadBytes + 64;  // 33 of them CURVE's

// Opens a connection with `socket`, already configured, and waits until the door has answered.
// Fails with internal when it was let in or got no answer.
Result<void> expect_refusal(void* context, Socket& socket, const std::string& endpoint) {
  socket.set(ZMQ_RECONNECT_IVL, -1);
  Monitor monitor(context, socket);
  socket.connect(reachable(endpoint));
  Result<void> result{ErrorCode::internal, "the allow-list of " + endpoint + " does not answer"};
  for (int round = 0; round < 50; ++round) {
    bool over = false;
    while (auto event = monitor.next()) {
      if (event->event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
        result = {ErrorCode::internal, "the allow-list of " + endpoint + " lets strangers in"};
        over = true;
      } else if (event->event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
        result = {};
        over = true;
      }
      if (over) break;
    }
    if (over) break;
    pollfd waiting{monitor.fd(), POLLIN, 0};
    if (!(monitor.events() & ZMQ_POLLIN)) ::poll(&waiting, 1, 100);
  }
  monitor.stop(socket);
  socket.close();
  return result;
}

}  // namespace

ControlLane::ControlLane(const ZmqLinkOptions& options, const LinkEvents& events)
    : options_(options), events_(events), domain_(options.node.text()) {
  zmq_curve_keypair(test_public_.data(), test_secret_.data());
  zmq_z85_decode(reinterpret_cast<std::uint8_t*>(test_key_.data()), test_public_.data());
  open_door(context_, domain_, [this](const Knock& knock) { return answer(knock); });
}

ControlLane::~ControlLane() {
  close_door(context_, domain_);
}

KnockAnswer ControlLane::answer(const Knock& knock) const {
  CurveKey key;
  if (knock.mechanism != "CURVE" || knock.key.size() != key.size()) return {400, ""};
  std::ranges::copy(knock.key, key.begin());
  if (key == test_key_) return {400, ""};
  Admission admission = options_.admit ? options_.admit(key) : Admission{};
  switch (admission.verdict) {
    case Admission::Verdict::accepted:
      return {200, admission.node.text()};
    case Admission::Verdict::unknown:
      return {300, ""};
    case Admission::Verdict::revoked:
      break;
  }
  return {400, ""};
}

void ControlLane::configure_inbox(Socket& inbox) {
  inbox.set(ZMQ_CURVE_SERVER, 1);
  inbox.set_bytes(ZMQ_CURVE_SECRETKEY, options_.curve_secret_key);
  inbox.set_bytes(ZMQ_ZAP_DOMAIN, as_bytes(domain_));
  inbox.set_wide(ZMQ_MAXMSGSIZE, kMaxFrameBytes);
  inbox.set(ZMQ_SNDHWM, 1'000);
  inbox.set(ZMQ_RCVHWM, 1'000);
}

void ControlLane::configure_dial(Socket& socket, const Peer& peer) {
  socket.set_bytes(ZMQ_CURVE_SERVERKEY, peer.address.curve_public_key);
  socket.set_bytes(ZMQ_CURVE_PUBLICKEY, options_.curve_public_key);
  socket.set_bytes(ZMQ_CURVE_SECRETKEY, options_.curve_secret_key);
  socket.set_wide(ZMQ_MAXMSGSIZE, kMaxFrameBytes);
  socket.set(ZMQ_SNDHWM, 1'000);
  socket.set(ZMQ_RCVHWM, 1'000);
}

// [envelope length 4][envelope][body length 4][body][payload], little-endian. CURVE copies anyway.
Frame ControlLane::pack(const Envelope& envelope, ByteView body, const SharedBytes& payload) {
  Bytes head = encode_envelope(envelope);
  Frame frame(8 + head.size() + body.size() + payload.size());
  std::byte* at = frame.data();
  for (ByteView part : {ByteView(head), body}) {
    auto size = static_cast<std::uint32_t>(part.size());
    std::memcpy(at, &size, sizeof size);
    if (!part.empty()) std::memcpy(at + 4, part.data(), part.size());
    at += 4 + part.size();
  }
  if (!payload.empty()) std::memcpy(at, payload.view.data(), payload.size());
  return frame;
}

ControlLane::Unpacked ControlLane::unpack(Frame& frame, Incoming& into) {
  ByteView rest = frame.view();
  ByteView sections[2];
  for (ByteView& section : sections) {
    std::uint32_t size = 0;
    if (rest.size() < sizeof size) return Unpacked::bad;
    std::memcpy(&size, rest.data(), sizeof size);
    rest = rest.subspan(sizeof size);
    if (size > rest.size()) return Unpacked::bad;
    section = rest.first(size);
    rest = rest.subspan(size);
  }
  auto envelope = decode_envelope(sections[0]);
  if (!envelope) {
    into.other_major = envelope_major(sections[0]);
    bool other = into.other_major != 0 && into.other_major != kProtocolMajor;
    return other ? Unpacked::other_version : Unpacked::bad;
  }
  if (envelope->payload_bytes != rest.size()) return Unpacked::bad;
  if (sections[1].size() > kMaxBodyBytes || rest.size() > kMaxControlPayloadBytes) {
    return Unpacked::bad;
  }
  into.envelope = std::move(*envelope);
  into.body = to_bytes(sections[1]);
  if (!rest.empty()) {
    auto owner = std::make_shared<Frame>(std::move(frame));
    // A small frame lies inside the message object, which has just moved.
    into.payload = {owner, owner->view().last(rest.size())};
  }
  return Unpacked::message;
}

Result<void> ControlLane::test_door() const {
  if (endpoints().empty()) return {};
  Socket stranger(context_, ZMQ_DEALER);
  zmq_setsockopt(stranger.raw(), ZMQ_CURVE_PUBLICKEY, test_public_.data(), 41);
  zmq_setsockopt(stranger.raw(), ZMQ_CURVE_SECRETKEY, test_secret_.data(), 41);
  stranger.set_bytes(ZMQ_CURVE_SERVERKEY, options_.curve_public_key);
  return expect_refusal(context_, stranger, reachable(endpoints().front()));
}

}  // namespace gpunode::transport::detail
