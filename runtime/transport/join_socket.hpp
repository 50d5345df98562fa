// The join port: where a stranger with a token may speak, before it has any key that we know. Plain
// TCP (the frames are sealed by security's join protocol; opaque bytes here): ZeroMQ without a key
// is not fit for strangers, libzmq 4.3.4 aborts the process when a socket closes while a peer of
// ZMTP 1 or 2 connects.
//
// Bounded against strangers: frames of at most 4 KiB in, 512 connections at a time, fewer of one
// address or network (address_quota.hpp), each dropped after 10 s, one question a connection at a
// time. That an address is a caller's own is known without any state of ours: TCP's handshake is it,
// and the kernel keeps none before (its SYN cookies). One thread a listening socket. The dialling side
// tells name, port, silence and a foreign service apart, as a person who joins must be told.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/bytes.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/ip_address.hpp"
#include "runtime/base/result.hpp"
#include "runtime/security/address_quota.hpp"

namespace gpunode::transport {

inline constexpr std::size_t kMaxJoinFrameBytes = 4096;

class JoinSocket {
 public:
  // Answers one frame; may be kept and called later from any thread; calls after the first have no
  // effect.
  using Reply = std::function<void(Bytes frame)>;
  struct Callbacks {
    // Called on the socket's thread; must not block. `address` is "10.0.0.5".
    std::function<void(const std::string& address, Bytes frame, Reply reply)> on_frame;
    // May this address speak now? Asked before on_frame; null: everybody may.
    std::function<bool(const std::string& address)> may_speak;
  };
  struct Limits {
    security::AddressQuota::Limits connections = {};
    Duration life = std::chrono::seconds(10);
    IpRanges from = {};  // where callers may come from, this machine apart
  };

  // Fails with: already_exists (port taken; names it), invalid_argument.
  static Result<std::unique_ptr<JoinSocket>> listen(const std::string& endpoint,
                                                    Callbacks callbacks, Limits limits);
  static Result<std::unique_ptr<JoinSocket>> listen(const std::string& endpoint,
                                                    Callbacks callbacks) {
    return listen(endpoint, std::move(callbacks), Limits());
  }
  virtual ~JoinSocket() = default;
  virtual std::string endpoint() const = 0;  // with the true port
  virtual void close() = 0;
};

class JoinConnection {
 public:
  // Resolves, connects, and checks that a join port answers. Fails with: not_found (the name does
  // not resolve), unavailable (nothing listens on that port), timeout (no answer at all: a firewall
  // or a wrong address), protocol_mismatch (something else listens there), invalid_argument.
  static Result<std::unique_ptr<JoinConnection>> dial(const std::string& host, std::uint16_t port,
                                                      Duration deadline = std::chrono::seconds(5));
  virtual ~JoinConnection() = default;
  // Sends one frame and waits for its answer. Fails with: timeout, peer_lost (also each call after
  // a failed one), protocol_mismatch, invalid_argument (over kMaxJoinFrameBytes).
  virtual Result<Bytes> ask(ByteView frame, Duration deadline) = 0;
};

// Can a TCP connection to "tcp://host:port" be opened? Blocks up to `timeout`. Fails with the
// codes of JoinConnection::dial but protocol_mismatch.
Result<void> tcp_reachable(const std::string& endpoint, Duration timeout = std::chrono::seconds(3));

}  // namespace gpunode::transport
