#include "runtime/security/session_keys.hpp"

#include "runtime/security/crypto.hpp"
#include "runtime/security/detail/layout.hpp"
#include "runtime/security/detail/sodium.hpp"

namespace gpunode::security {

namespace {

constexpr std::uint64_t kRekeyAhead = 1024;  // frames before the hard end of an epoch

std::uint32_t epoch_of(std::uint64_t sequence) {
  return static_cast<std::uint32_t>(sequence >> 32);
}

// 32 zero bits and the sequence number, big-endian.
detail::AesGcm::Iv iv_of(std::uint64_t sequence) {
  detail::AesGcm::Iv iv{};
  for (int index = 0; index < 8; ++index) {
    iv[4 + index] = static_cast<std::byte>(sequence >> (56 - 8 * index));
  }
  return iv;
}

BulkKey next_key(const BulkKey& key) {
  BulkKey next;
  hkdf_sha256(key.view(), {}, as_bytes("gpunode bulk rekey 1"), next.writable());
  return next;
}

Error not_authentic() {
  return {ErrorCode::unauthenticated, "a bulk frame does not open under the session's key"};
}

}  // namespace

EphemeralKey EphemeralKey::create() {
  detail::ensure_sodium();
  EphemeralKey pair;
  crypto_box_keypair(detail::raw(pair.public_), detail::raw_out(pair.secret_.writable()));
  return pair;
}

Result<Secret<32>> EphemeralKey::agree(const EphemeralPublic& peer) const {
  Secret<32> agreed;
  if (crypto_scalarmult(detail::raw_out(agreed.writable()), detail::raw(secret_.view()),
                        detail::raw(peer)) != 0) {
    return {ErrorCode::unauthenticated, "the peer's ephemeral key is a weak point of the curve"};
  }
  return agreed;
}

BulkKey derive_bulk_key(const Secret<32>& agreed, const SessionContext& context,
                        Direction direction, std::uint8_t lane) {
  detail::LayoutWriter info;
  info.text("gpunode bulk session 1");
  info.raw(context.dialler.value);
  info.raw(context.listener.value);
  info.u64(context.dialler_boot);
  info.u64(context.listener_boot);
  info.raw(context.dialler_key);
  info.raw(context.listener_key);
  info.u8(static_cast<std::uint8_t>(direction));
  info.u8(lane);
  BulkKey key;
  hkdf_sha256(agreed.view(), context.connection_nonce, info.bytes(), key.writable());
  return key;
}

BulkSealer::BulkSealer(BulkKey key, Time now) : key_(std::move(key)), epoch_began_(now) {
  cipher_.set_key(key_);
}

bool BulkSealer::rekey_due(Time now) const {
  std::uint64_t used = sequence_ & (kFramesAnEpoch - 1);
  return used + kRekeyAhead >= kFramesAnEpoch || now - epoch_began_ >= kEpochTerm;
}

void BulkSealer::rekey(Time now) {
  key_ = next_key(key_);
  cipher_.set_key(key_);
  sequence_ = (static_cast<std::uint64_t>(epoch_of(sequence_)) + 1) << 32;
  epoch_began_ = now;
}

Result<std::uint64_t> BulkSealer::seal(ByteView header, ByteView payload, MutableByteView out) {
  if (out.size() != payload.size() + kTagBytes) {
    return {ErrorCode::invalid_argument, "a sealed frame is 16 bytes longer than its payload"};
  }
  if ((sequence_ & (kFramesAnEpoch - 1)) == kFramesAnEpoch - 1) {
    return {ErrorCode::resource_exhausted, "the bulk session is out of frame numbers"};
  }
  if (!cipher_.seal(iv_of(sequence_), header, payload, out)) {
    return {ErrorCode::internal, "OpenSSL cannot seal a bulk frame"};
  }
  return sequence_++;
}

BulkOpener::BulkOpener(BulkKey key) : key_(std::move(key)) {
  cipher_.set_key(key_);
}

Result<MutableByteView> BulkOpener::open(std::uint64_t sequence, ByteView header,
                                         MutableByteView sealed) {
  if (sealed.size() < kTagBytes) {
    return {ErrorCode::invalid_argument, "a sealed frame is at least 16 bytes"};
  }
  std::uint32_t epoch = epoch_of(sequence);
  if (epoch == epoch_) {
    if (seen(sequence) || !cipher_.open(iv_of(sequence), header, sealed)) return not_authentic();
  } else {
    if (epoch_ == 0xffffffffu || epoch != epoch_ + 1) return not_authentic();
    BulkKey candidate = next_key(key_);
    cipher_.set_key(candidate);
    if (!cipher_.open(iv_of(sequence), header, sealed)) {
      cipher_.set_key(key_);
      return not_authentic();
    }
    key_ = std::move(candidate);
    epoch_ = epoch;
    window_.fill(0);
    highest_ = sequence;  // nothing of the new epoch before this frame was opened, all of it may be
  }
  note(sequence);
  return sealed.first(sealed.size() - kTagBytes);
}

bool BulkOpener::seen(std::uint64_t sequence) const {
  if (sequence >= highest_) return false;
  if (highest_ - sequence > kReplayWindow) return true;
  return (window_[sequence / 64 % window_.size()] >> (sequence % 64)) & 1;
}

void BulkOpener::note(std::uint64_t sequence) {
  if (sequence >= highest_) {
    std::uint64_t fresh = sequence + 1 - highest_;
    if (fresh >= kReplayWindow) {
      window_.fill(0);
    } else {
      for (std::uint64_t number = highest_; number < sequence; ++number) {
        window_[number / 64 % window_.size()] &= ~(std::uint64_t{1} << (number % 64));
      }
    }
    highest_ = sequence + 1;
  }
  window_[sequence / 64 % window_.size()] |= std::uint64_t{1} << (sequence % 64);
}

}  // namespace gpunode::security
