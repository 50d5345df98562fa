// Keys and sealing of one bulk connection. Both ends exchange an ephemeral X25519 key over the
// authenticated control channel; HKDF of the agreed secret, both boots, the connection's nonce,
// the direction and the lane gives one AES-256-GCM key a direction and lane, never stored. Owned by
// the bulk thread; sealing and opening allocate nothing and run at AES-NI speed (about 4 GB/s).
//
// Frame on the wire, built by the link: [header][sequence number, 8 bytes][payload][tag, 16 bytes].
// The header is associated data; the sequence number is the IV and so needs no place in the header.
//
//   sequence number = epoch (upper 32 bits) | frame in the epoch (lower 32 bits)
//   An epoch ends after 2^32 frames or one hour; the next key is derived from this one and this one
//   is forgotten. The opener follows by itself when it sees the first frame of the next epoch.
#pragma once

#include <array>

#include "runtime/base/bytes.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"
#include "runtime/security/detail/aes_gcm.hpp"
#include "runtime/security/secret.hpp"

namespace gpunode::security {

inline constexpr std::size_t kTagBytes = 16;
inline constexpr std::uint64_t kFramesAnEpoch = std::uint64_t{1} << 32;
inline constexpr Duration kEpochTerm = std::chrono::hours(1);
inline constexpr std::size_t kReplayWindow = 1024;  // frames that may arrive out of order

using EphemeralPublic = std::array<std::byte, 32>;

// One side's short-lived X25519 pair. Make one a connection; forget it after agree().
class EphemeralKey {
 public:
  static EphemeralKey create();

  const EphemeralPublic& public_key() const { return public_; }

  // The secret shared with the owner of `peer`.
  // Fails with unauthenticated when the peer's key is a weak point.
  Result<Secret<32>> agree(const EphemeralPublic& peer) const;

 private:
  EphemeralKey() = default;
  Secret<32> secret_;
  EphemeralPublic public_{};
};

// What both ends know of one connection; every byte of it goes into the keys.
struct SessionContext {
  NodeId dialler;
  NodeId listener;
  Boot dialler_boot = 0;
  Boot listener_boot = 0;
  std::array<std::byte, 16> connection_nonce{};  // drawn by the listener, sent over control
  EphemeralPublic dialler_key{};
  EphemeralPublic listener_key{};
};

enum class Direction : std::uint8_t { dialler_to_listener = 0, listener_to_dialler = 1 };

using BulkKey = Secret<32>;

// The key of one direction and lane of a session. Pure.
BulkKey derive_bulk_key(const Secret<32>& agreed, const SessionContext& context,
                        Direction direction, std::uint8_t lane);

// Seals the frames of one direction and lane. Thread: one at a time.
class BulkSealer {
 public:
  BulkSealer(BulkKey key, Time now);

  // True once the epoch has run its term or is almost out of frames: call rekey() before the next
  // seal(). The other end needs no message.
  bool rekey_due(Time now) const;
  void rekey(Time now);

  // Encrypts `payload` into `out` (payload.size() + kTagBytes; may begin at the same address as
  // payload, else they may not overlap) and returns the frame's sequence number. A resend takes a
  // new number. Fails with invalid_argument (size of out), resource_exhausted (rekey was not called
  // for 2^32 frames).
  Result<std::uint64_t> seal(ByteView header, ByteView payload, MutableByteView out);

 private:
  detail::AesGcm cipher_{detail::AesGcm::Use::seal};
  BulkKey key_;
  std::uint64_t sequence_ = 0;
  Time epoch_began_;
};

// Opens the frames of one direction and lane. Thread: one at a time.
class BulkOpener {
 public:
  explicit BulkOpener(BulkKey key);

  // Decrypts `sealed` (payload and tag) in place and returns the payload's part of it.
  // Fails with unauthenticated (wrong key, header, number or bytes, or a frame seen before),
  // invalid_argument (shorter than a tag). After a failure the bytes are unspecified, and the window
  // and epoch are as before.
  Result<MutableByteView> open(std::uint64_t sequence, ByteView header, MutableByteView sealed);

 private:
  bool seen(std::uint64_t sequence) const;
  void note(std::uint64_t sequence);

  detail::AesGcm cipher_{detail::AesGcm::Use::open};
  BulkKey key_;
  std::uint32_t epoch_ = 0;
  std::uint64_t highest_ = 0;  // 1 + the highest number opened; 0 = none yet
  std::array<std::uint64_t, kReplayWindow / 64> window_{};
};

}  // namespace gpunode::security
