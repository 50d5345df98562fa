// The envelope of a frame as a plain struct, and its way to and from bytes. Decoding copies the
// bytes to aligned memory (ZeroMQ hands out any address), verifies them with limits, and takes only
// what this version knows.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "runtime/base/bytes.hpp"

namespace gpunode::transport::detail {

inline constexpr std::uint16_t kProtocolMajor = 1;
inline constexpr std::size_t kMaxEnvelopeBytes = 4096;

// The numbers of schemas/envelope.fbs.
enum class Kind : std::uint8_t {
  none,
  hello,
  welcome,
  not_yet,
  data,
  reset,
  bulk_want,
  bulk_request,
  bulk_ticket
};

struct Envelope {
  Kind kind = Kind::none;
  std::uint16_t topic = 0;
  std::uint64_t stream = 0;
  std::uint64_t session = 0;
  std::uint64_t seq = 0;
  std::uint64_t boot = 0;
  std::uint64_t greeting = 0;  // its number among the sender's
  std::uint64_t payload_bytes = 0;
  bool plain = false;
  std::array<std::byte, 32> key_share{};  // zero: none
  std::array<std::byte, 16> nonce{};
  std::string ticket = {};
};

// One message between two nodes, as it came in.
struct WireMessage {
  Envelope envelope;
  Bytes body;
  SharedBytes payload;
};

Bytes encode_envelope(const Envelope& envelope);
// Nothing for bytes that do not verify, another major version, or a kind that is not known.
std::optional<Envelope> decode_envelope(ByteView bytes);
// The major version that verified bytes name; 0: they do not verify.
std::uint16_t envelope_major(ByteView bytes);

}  // namespace gpunode::transport::detail
