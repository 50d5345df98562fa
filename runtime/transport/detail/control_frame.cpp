#include "runtime/transport/detail/control_frame.hpp"

namespace gpunode::transport::detail {

Frame pack_frame(const Envelope& envelope, ByteView body, ByteView payload) {
  const Bytes head = encode_envelope(envelope);
  Frame frame(8 + head.size() + body.size() + payload.size());
  std::byte* at = frame.data();
  for (ByteView part : {ByteView(head), body}) {
    const auto size = static_cast<std::uint32_t>(part.size());
    std::memcpy(at, &size, sizeof size);
    if (!part.empty()) std::memcpy(at + 4, part.data(), part.size());
    at += 4 + part.size();
  }
  // Copied, as it may not change while ZeroMQ's thread encrypts, which copies it anyway.
  if (!payload.empty()) std::memcpy(at, payload.data(), payload.size());
  return frame;
}

Unpacked unpack_frame(Frame& frame, WireMessage& into, std::uint16_t& other_major) {
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
    const std::uint16_t major = envelope_major(sections[0]);
    if (major == 0 || major == kProtocolMajor) return Unpacked::bad;
    other_major = major;
    return Unpacked::other_version;
  }
  if (envelope->payload_bytes != rest.size() || sections[1].size() > kMaxBodyBytes ||
      rest.size() > kMaxControlPayloadBytes)
    return Unpacked::bad;
  into.envelope = std::move(*envelope);
  into.body = to_bytes(sections[1]);
  if (!rest.empty()) {
    auto owner = std::make_shared<Frame>(std::move(frame));
    // A small frame lies inside the message object, which has just moved.
    into.payload = {owner, owner->view().last(rest.size())};
  }
  return Unpacked::message;
}

}  // namespace gpunode::transport::detail
