// Bytes that must not outlive their use: keys, token secrets, agreed secrets. Wiped when destroyed
// or moved from, never copied by accident, never printable (no stream operator, no text()).
// Owned by whoever holds it; costs one wipe at its end.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "runtime/base/bytes.hpp"

namespace gpunode::security {

// Overwrites `bytes` with zeros in a way that the compiler may not leave out.
void wipe(MutableByteView bytes);

template <std::size_t N>
class Secret {
 public:
  Secret() = default;
  ~Secret() { wipe(bytes_); }
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  Secret(Secret&& other) noexcept : bytes_(other.bytes_) { wipe(other.bytes_); }
  Secret& operator=(Secret&& other) noexcept {
    if (this != &other) {
      bytes_ = other.bytes_;
      wipe(other.bytes_);
    }
    return *this;
  }

  // Exactly N bytes, else nothing.
  static std::optional<Secret> from(ByteView bytes) {
    if (bytes.size() != N) return std::nullopt;
    Secret secret;
    std::memcpy(secret.bytes_.data(), bytes.data(), N);
    return secret;
  }

  ByteView view() const { return bytes_; }
  MutableByteView writable() { return bytes_; }

 private:
  std::array<std::byte, N> bytes_{};
};

}  // namespace gpunode::security
