// The door to libsodium: its header, its start, and its pointer types. Included by the .cpp files
// of this folder only.
#pragma once

#include "runtime/base/bytes.hpp"

#include <sodium.h>

namespace gpunode::security::detail {

void ensure_sodium();  // initialises libsodium once; thread-safe

// Never null, also for no bytes: libsodium declares its arguments so.
inline const unsigned char* raw(ByteView bytes) {
  static constexpr unsigned char kNothing = 0;
  return bytes.empty() ? &kNothing : reinterpret_cast<const unsigned char*>(bytes.data());
}
template <std::size_t N>
unsigned char* raw(std::array<std::byte, N>& bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}
template <std::size_t N>
const unsigned char* raw(const std::array<std::byte, N>& bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
inline unsigned char* raw_out(MutableByteView bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

}  // namespace gpunode::security::detail
