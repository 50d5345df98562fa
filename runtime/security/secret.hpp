// Bytes that must not outlive their use: keys, token secrets, agreed secrets. Wiped when destroyed
// or moved from, never copied by accident, never printable (no stream operator, no text()).
// Owned by whoever holds it; costs one wipe at its end.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
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

// Memory of its own pages: never swapped where the limit on locked memory allows it, never in a core
// dump, between pages that nobody may touch; wiped when it is freed.
struct FreesGuarded {
  void operator()(std::byte* bytes) const;
};
std::unique_ptr<std::byte, FreesGuarded> allocate_guarded(std::size_t size_bytes);

// A secret that lives as long as its node, and is there once: it costs four pages. Empty when it was
// moved from.
template <std::size_t N>
class GuardedSecret {
 public:
  GuardedSecret() : bytes_(allocate_guarded(N)) {}

  ByteView view() const { return {bytes_.get(), bytes_ ? N : 0}; }
  MutableByteView writable() { return {bytes_.get(), bytes_ ? N : 0}; }

 private:
  std::unique_ptr<std::byte, FreesGuarded> bytes_;
};

}  // namespace gpunode::security
