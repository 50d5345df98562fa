// What members of a view say to one another during a step's all-reduce, and the cut of the vector
// into chunks that they speak about. exchange_codec turns these into wire frames and back.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <variant>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/collective/data_fingerprint.hpp"
#include "runtime/collective/step_times.hpp"
#include "runtime/collective/tree.hpp"

namespace gpunode::collective {

// A vector of the job's length, cut into equal chunks (the last may be shorter). Depends on the
// element count alone, so chunk borders are the same whoever takes part: an eighth of the vector,
// rounded down to a power of two between 64 KiB and 1 MiB. An empty vector is one empty chunk.
struct ChunkLayout {
  std::uint64_t element_count = 0;
  std::uint64_t chunk_elements = 1;

  static ChunkLayout of(std::uint64_t element_count) {
    constexpr std::uint64_t kLeast = 64 << 10, kMost = 1 << 20;
    const std::uint64_t eighth = std::bit_floor(element_count * sizeof(float) / 8);
    return {element_count, std::clamp(eighth, kLeast, kMost) / sizeof(float)};
  }
  std::uint32_t chunk_count() const {
    const std::uint64_t count = (element_count + chunk_elements - 1) / chunk_elements;
    return static_cast<std::uint32_t>(std::max<std::uint64_t>(count, 1));
  }
  std::uint64_t first(std::uint32_t chunk) const { return chunk * chunk_elements; }
  std::uint64_t size(std::uint32_t chunk) const {
    return std::min(chunk_elements, element_count - first(chunk));
  }
  bool operator==(const ChunkLayout&) const = default;
};

// The rank that completes a chunk's sum, of so many members; the rotation differs from view to view.
constexpr std::uint16_t owner_of_chunk(std::uint32_t chunk, std::uint32_t rotation,
                                       std::uint16_t member_count) {
  return static_cast<std::uint16_t>((std::uint64_t{chunk} + rotation) % member_count);
}

// Messages of the exchange. `payload` holds the chunk's floats, little-endian.
struct PartialChunk {
  std::uint32_t chunk = 0;
  TreeNode node;
  DataFingerprint data_fingerprint;  // of the node's slices; the same in every chunk
  SharedBytes payload;
};
struct ResultChunk {
  std::uint32_t chunk = 0;
  DataFingerprint data_fingerprint;  // of the whole step
  SharedBytes payload;
};
struct Done {
  Digest result;  // of the whole result and of what was fed
  DataFingerprint data_fingerprint;
  StepTimes times;  // of the sender
  bool operator==(const Done&) const = default;
};
// Asks a peer for what did not arrive: partials as an owner, results as a member, its DONE. Chunk
// numbers ascend, none twice.
struct Need {
  std::vector<std::uint32_t> partial_chunks;
  std::vector<std::uint32_t> result_chunks;
  bool done = false;
};
using ExchangeMessage = std::variant<PartialChunk, ResultChunk, Done, Need>;

}  // namespace gpunode::collective
