#include "runtime/collective/exchange_message.hpp"

#include <algorithm>
#include <bit>

namespace gpunode::collective {

ChunkLayout ChunkLayout::of(std::uint64_t element_count) {
  constexpr std::uint64_t kLeast = 64 << 10, kMost = 1 << 20;
  std::uint64_t eighth = std::bit_floor(element_count * sizeof(float) / 8);
  std::uint64_t chunk_bytes = std::clamp(eighth, kLeast, kMost);
  return {element_count, chunk_bytes / sizeof(float)};
}

std::uint32_t ChunkLayout::chunk_count() const {
  std::uint64_t count = (element_count + chunk_elements - 1) / chunk_elements;
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(count, 1));
}

std::uint64_t ChunkLayout::first(std::uint32_t chunk) const {
  return chunk * chunk_elements;
}

std::uint64_t ChunkLayout::size(std::uint32_t chunk) const {
  return std::min(chunk_elements, element_count - first(chunk));
}

}  // namespace gpunode::collective
