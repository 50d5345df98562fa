// What a node and its rank process say to each other: messages of one size each way over a pair of
// sequenced-packet sockets, in the memory layout of the one program that both are. The vector lies
// in the memory file, which both map whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace gpunode::island {

// The rank process finds them open.
inline constexpr int kControlDescriptor = 3, kMemoryDescriptor = 4;
inline constexpr std::size_t kNameBytes = 128;

struct RankOrder {
  enum class Kind : std::uint32_t { open, name, join, sum };
  Kind kind = Kind::open;
  std::uint32_t rank = 0;  // join
  std::uint32_t member_count = 0;
  std::uint32_t place_on_host = 0;
  std::uint32_t one_host = 0;             // name, join
  std::uint64_t element_count = 0;        // open
  char name[kNameBytes] = {};             // join
  char nccl[256] = {}, driver[256] = {};  // open: libraries
};

struct RankAnswer {
  RankOrder::Kind kind = RankOrder::Kind::open;  // of the order
  std::uint32_t failed = 0;
  char name[kNameBytes] = {};  // name
  char reason[256] = {};       // failed
};

// Cuts what is too long.
template <std::size_t size>
void put_text(char (&place)[size], const std::string& text) {
  const std::size_t length = text.size() < size - 1 ? text.size() : size - 1;
  std::memcpy(place, text.data(), length);
  place[length] = '\0';
}
template <std::size_t size>
std::string text_at(const char (&place)[size]) {
  return {place, strnlen(place, size)};
}

}  // namespace gpunode::island
