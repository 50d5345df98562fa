// Fixed little-endian layouts: what is signed, hashed or shown to strangers before anything is
// parsed (banner, join frame, token). A reader never reads past its end: it turns bad and gives
// zeros, and the caller asks ok() once. Included by .cpp files of this folder only.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/bytes.hpp"

namespace gpunode::security::detail {

using WallTime = std::chrono::system_clock::time_point;

// Times travel as milliseconds since 1970. Those beyond the year 2248 or before 1970 are nonsense
// and would overflow a nanosecond count.
inline std::int64_t to_ms(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}
inline bool to_time(std::int64_t ms, WallTime& time) {
  if (ms < 0 || ms > (std::int64_t{1} << 43)) return false;
  time = WallTime(std::chrono::milliseconds(ms));
  return true;
}

class LayoutWriter {
 public:
  void u8(std::uint8_t value) { number(value); }
  void u16(std::uint16_t value) { number(value); }
  void u32(std::uint32_t value) { number(value); }
  void u64(std::uint64_t value) { number(value); }
  void time(WallTime value) { u64(static_cast<std::uint64_t>(to_ms(value))); }
  void raw(ByteView bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  // Length first (two bytes), so that no two different sequences of texts give the same bytes.
  void text(std::string_view value) {
    u16(static_cast<std::uint16_t>(value.size()));
    raw(as_bytes(value));
  }
  ByteView bytes() const { return bytes_; }
  Bytes take() { return std::move(bytes_); }

 private:
  template <class T>
  void number(T value) {
    for (std::size_t index = 0; index < sizeof(T); ++index) {
      bytes_.push_back(static_cast<std::byte>((value >> (8 * index)) & 0xff));
    }
  }
  Bytes bytes_;
};

class LayoutReader {
 public:
  explicit LayoutReader(ByteView bytes) : rest_(bytes) {}

  std::uint8_t u8() { return number<std::uint8_t>(); }
  std::uint16_t u16() { return number<std::uint16_t>(); }
  std::uint64_t u64() { return number<std::uint64_t>(); }
  WallTime time() {
    WallTime time{};
    if (!to_time(static_cast<std::int64_t>(u64()), time)) ok_ = false;
    return time;
  }
  ByteView raw(std::size_t size) {
    if (size > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    ByteView part = rest_.first(size);
    rest_ = rest_.subspan(size);
    return part;
  }
  template <std::size_t N>
  std::array<std::byte, N> array() {
    std::array<std::byte, N> out{};
    ByteView part = raw(N);
    if (part.size() == N) std::memcpy(out.data(), part.data(), N);
    return out;
  }
  std::string text(std::size_t limit) {
    std::size_t size = u16();
    if (size > limit) ok_ = false;
    return ok_ ? std::string(as_text(raw(size))) : std::string();
  }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }
  ByteView rest() const { return rest_; }

 private:
  template <class T>
  T number() {
    ByteView part = raw(sizeof(T));
    T value = 0;
    for (std::size_t index = 0; index < part.size(); ++index) {
      value = static_cast<T>(value | static_cast<T>(static_cast<T>(part[index]) << (8 * index)));
    }
    return value;
  }
  ByteView rest_;
  bool ok_ = true;
};

// What is signed of a message: with the purpose in front of it.
inline Bytes with_purpose(std::string_view purpose, ByteView message) {
  LayoutWriter writer;
  writer.text(purpose);
  writer.raw(message);
  return writer.take();
}

}  // namespace gpunode::security::detail
