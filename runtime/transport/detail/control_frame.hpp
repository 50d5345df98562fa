// The form of a frame of the control lane: one ZeroMQ frame a message,
//   [envelope length 4][envelope][body length 4][body][payload], little-endian.
#pragma once

#include "runtime/transport/detail/envelope_codec.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::transport::detail {

// What a socket takes before it drops the connection. ZeroMQ counts the ciphertext, 33 bytes more.
inline constexpr std::int64_t kMaxFrameBytes =
    8 + kMaxEnvelopeBytes + kMaxBodyBytes + kMaxControlPayloadBytes + 64;

enum class Unpacked : std::uint8_t {
  message,
  bad,            // ends the session
  other_version,  // of a node whose protocol is not ours
};

Frame pack_frame(const Envelope& envelope, ByteView body = {}, ByteView payload = {});
// A payload is not copied: it keeps the frame. `other_major` is set for other_version alone.
Unpacked unpack_frame(Frame& frame, WireMessage& into, std::uint16_t& other_major);

}  // namespace gpunode::transport::detail
