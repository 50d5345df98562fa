// One TCP connection of the bulk lane: messages in and out of its bytes. Bare TCP and not ZeroMQ,
// as measured: handing every chunk to ZeroMQ's threads and back costs twice what sending it does,
// and what one core has just read is summed on another. Never blocks. Read by the bulk thread; written by one
// thread at a time, which is mostly that too.
//
// One message is
//   [header 24][number 8][ [envelope length 4][envelope][body] ][tag 16] [payload][tag 16]
//   header = "GPBK", version 2, flags 2 (1: sealed), session 8, content bytes 4, payload bytes 4;
// little-endian. Sealed: the header is associated data of both parts, the payload's number is the
// content's plus one. Plain: no tags, number 0. A part without bytes has no tag either.
// Costs: nothing is copied in user space but contents and, plain, 8 KiB of a payload.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "runtime/base/bytes.hpp"
#include "runtime/security/session_keys.hpp"
#include "runtime/transport/detail/buffer_pool.hpp"
#include "runtime/transport/detail/envelope_codec.hpp"
#include "runtime/transport/detail/tcp.hpp"

namespace gpunode::transport::detail {

// Keys of one bulk connection, from one end's view.
struct BulkChannel {
  NodeId peer;
  bool plain = false;
  std::optional<security::BulkSealer> sealer;
  std::optional<security::BulkOpener> opener;
};

class BulkStream {
 public:
  // Sets the connection's TCP options.
  BulkStream(SharedDescriptor connection, BulkChannel channel, std::uint64_t session,
             std::shared_ptr<BufferPool> pool);

  // Asked where a payload is to be read to, with the message before it; empty: into the pool's.
  // Plain channels alone: what was not opened yet is shown to nobody.
  using MemoryFn = std::function<WritableBytes(const WireMessage& head)>;
  void read_payloads_to(MemoryFn memory_for) { memory_for_ = std::move(memory_for); }

  // Begins a message, behind those that are not through. False: the session has run out of numbers.
  bool begin(Time now, const Envelope& envelope, ByteView body, const SharedBytes& payload);
  enum class Written { all, blocked, broken };
  // Goes on with what has begun; all: it is in the kernel's hands, or there is none.
  Written write();
  // What the kernel has not sent yet, or of which it does not know that it has come.
  std::size_t unsent_bytes() const;
  bool is_plain() const { return channel_.plain; }

  enum class Read {
    message,
    nothing,  // yet
    bad,      // not of this session, does not open, or over a limit
    ended     // the connection
  };
  Read read(WireMessage& into);

  int descriptor() const { return *connection_; }
  std::uint64_t session() const { return session_; }
  const NodeId& peer() const { return channel_.peer; }

 private:
  static constexpr std::size_t kFrontBytes = 32;
  enum class Step { header, content, payload };
  enum class Filled { yes, not_yet, ended };
  // Bytes to send, and what keeps them.
  struct Part {
    ByteView left;
    std::shared_ptr<const void> owner;
  };

  Filled fill(MutableByteView part);
  Read take_header();
  Read take_content(WireMessage& into);
  Read take_payload(WireMessage& into);
  WritableBytes memory_for_payload(std::size_t size);
  std::size_t tag_bytes() const { return channel_.plain ? 0 : security::kTagBytes; }

  SharedDescriptor connection_;
  BulkChannel channel_;
  std::uint64_t session_;
  std::shared_ptr<BufferPool> pool_;
  MemoryFn memory_for_;

  std::vector<Part> out_;

  Step step_ = Step::header;
  std::size_t filled_ = 0;  // of the part that is being read
  std::array<std::byte, kFrontBytes> front_{};
  Bytes content_;
  WireMessage incoming_;
  WritableBytes payload_;  // where it is read to, with room for the tag
  // Read together with the end of a part: what comes behind it.
  std::array<std::byte, 8192> ahead_;
  std::size_t ahead_begin_ = 0, ahead_end_ = 0;
};

}  // namespace gpunode::transport::detail
