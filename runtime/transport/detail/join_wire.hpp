// What crosses a join connection: each end says kJoinGreeting at once, so that it is known who is
// there before anything is parsed; then the dialler asks and the listener answers by turns, each
// frame behind its length (4 bytes, little-endian). The frames are opaque here.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "runtime/base/bytes.hpp"

namespace gpunode::transport::detail {

// The last byte is the version of this framing.
inline constexpr std::string_view kJoinGreeting{"gpujoin\x01", 8};
inline constexpr std::size_t kJoinHeadBytes = sizeof(std::uint32_t);
inline constexpr std::size_t kMaxJoinAnswerBytes = std::size_t{1} << 20;

inline std::uint32_t read_join_head(ByteView head) {
  std::uint32_t size = 0;
  std::memcpy(&size, head.data(), kJoinHeadBytes);
  return size;
}

inline Bytes with_join_head(ByteView frame) {
  Bytes bytes(kJoinHeadBytes + frame.size());
  auto size = static_cast<std::uint32_t>(frame.size());
  std::memcpy(bytes.data(), &size, kJoinHeadBytes);
  if (!frame.empty()) std::memcpy(bytes.data() + kJoinHeadBytes, frame.data(), frame.size());
  return bytes;
}

}  // namespace gpunode::transport::detail
