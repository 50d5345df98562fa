// Where chunks of peers may be read to straight from the socket: a result of another owner to its
// place in the vector, and of each chunk that this member owns one partial sum to where the chunk
// is summed. Saves a copy of what is in no cache afterwards.
//
//   state  | lend         | the loan ends | close, of a message elsewhere | close, of the loan
//   open   | lent         | -             | closed                        | -
//   lent   | no           | open          | refused                       | closed
//   closed | no           | -             | closed                        | -
// So nobody writes to a chunk once it is taken, whatever a connection that broke had begun.
// Thread-safe: lent on the link's thread, closed by the exchange. Lives as long as a loan does, and
// keeps the vector.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/collective/exchange_message.hpp"

namespace gpunode::collective {

class ChunkPlaces : public std::enable_shared_from_this<ChunkPlaces> {
 public:
  // What a chunk's place is for: the result, or the partial sum of that node; of that rank.
  struct Use {
    std::uint16_t rank = 0;
    std::optional<TreeNode> partial;
    bool operator==(const Use&) const = default;
  };
  // One use a chunk; nothing: its place is not to be lent.
  ChunkPlaces(std::shared_ptr<std::vector<float>> values, const ChunkLayout& layout,
              std::vector<std::optional<Use>> uses);

  // The place for a message's payload, for as long as `owner` of the answer is held; empty: read it
  // elsewhere.
  WritableBytes lend(std::uint32_t chunk, const Use& use, std::size_t bytes);
  // The message for this place is here and right: nothing is lent any more. False: it lies
  // elsewhere, and the place is lent; it has to be dropped. `at`: its bytes.
  bool close(std::uint32_t chunk, const Use& use, const std::byte* at);

 private:
  enum class State : std::uint8_t { open, lent, closed };
  struct Place {
    std::optional<Use> use;
    State state = State::open;
  };
  MutableByteView bytes_of(std::uint32_t chunk);
  void give_back(std::uint32_t chunk);

  const std::shared_ptr<std::vector<float>> values_;
  const ChunkLayout layout_;
  std::mutex mutex_;
  std::vector<Place> places_;
};

}  // namespace gpunode::collective
