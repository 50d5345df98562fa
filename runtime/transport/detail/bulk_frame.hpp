// The form of bulk frames. One message is one frame or two, the second only
// when there is a payload:
//   [header 24][number 8][ [envelope length 4][envelope][body] ][tag 16]
//   [payload][tag 16]
//   header = "GPBK", version 2, flags 2 (1: sealed), session 8, payload bytes 8; little-endian
// Sealed: the header is associated data of both frames, the payload's number is the first one's
// plus one. Plain: no tags, number 0, and the payload is sent from the caller's memory.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/security/session_keys.hpp"
#include "runtime/transport/detail/lane_loop.hpp"

namespace gpunode::transport::detail {

// Keys of one bulk connection, from one end's view. Owned by the bulk thread.
struct BulkChannel {
  NodeId peer;
  bool plain = false;
  std::optional<security::BulkSealer> sealer;
  std::optional<security::BulkOpener> opener;

  // A message whose payload is still to come.
  struct Half {
    Incoming incoming;
    std::array<std::byte, 24> header{};
    std::uint64_t number = 0;  // of the payload
  };
  std::optional<Half> half;
};

// Buffers for sealed payloads, given back by ZeroMQ's I/O threads. Keeps at most 64 MiB.
class SealPool : public std::enable_shared_from_this<SealPool> {
 public:
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t capacity = 0;
  };
  Buffer take(std::size_t size);
  void give(Buffer buffer);

 private:
  std::mutex mutex_;
  std::vector<Buffer> free_;
  std::size_t kept_ = 0;
};

// No frames: the session has run out of numbers and must end.
Frames pack_bulk(BulkChannel& channel, std::uint64_t session, const Envelope& envelope,
                 ByteView body, const SharedBytes& payload, const std::shared_ptr<Charge>& charge,
                 SealPool& pool, Time now);
// Opens in place. Bad: a frame that is not the session's or does not open.
Unpacked unpack_bulk(BulkChannel& channel, std::uint64_t session, Frame& frame, Incoming& into);

}  // namespace gpunode::transport::detail
