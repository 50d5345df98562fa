// Bytes in three strengths: ByteView (borrowed), Bytes (owned), SharedBytes (a counted owner plus
// the part of it that is meant); and WritableBytes, a place for some. Large buffers travel as
// SharedBytes from the place where they are computed to the socket, without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpunode {

using ByteView = std::span<const std::byte>;
using MutableByteView = std::span<std::byte>;
using Bytes = std::vector<std::byte>;

struct SharedBytes {
  std::shared_ptr<const void> owner;  // keeps `view` alive
  ByteView view;

  std::size_t size() const { return view.size(); }
  bool empty() const { return view.empty(); }

  static SharedBytes from(Bytes bytes) {
    auto owned = std::make_shared<const Bytes>(std::move(bytes));
    ByteView view(owned->data(), owned->size());
    return {std::move(owned), view};
  }
  SharedBytes part(std::size_t offset, std::size_t length) const {
    return {owner, view.subspan(offset, length)};
  }
};

// Memory that somebody lends to be filled, by whoever brings the bytes, so that they need not be
// copied to their place. Owned by the lender; lent for as long as `owner` is held.
struct WritableBytes {
  std::shared_ptr<const void> owner;
  MutableByteView view;
};

inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
template <class T>
ByteView bytes_of(std::span<const T> values) {
  return std::as_bytes(values);
}
inline Bytes to_bytes(ByteView view) {
  return Bytes(view.begin(), view.end());
}

// The number's eight bytes, little-endian.
inline void append_number(Bytes& bytes, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8)
    bytes.push_back(static_cast<std::byte>(value >> shift));
}

// Lower-case hexadecimal; from_hex gives an empty vector for anything that is not pairs of digits.
std::string to_hex(ByteView bytes);
Bytes from_hex(std::string_view text);

}  // namespace gpunode
