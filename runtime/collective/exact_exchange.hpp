// One step's exact sum inside one view: who sends which chunk to whom, and when the step is held
// and committed. Pure: no I/O, no clock, no threads; the addition is handed in.
//
// Round 1: every member sends, for each chunk, one partial sum a cover node to the chunk's owner
// (owner of chunk c = (c + rotation) mod N). Round 2: the owner completes the tree and sends the
// result to all. A member that has every result HOLDS the step and says DONE with the digest of the
// whole result; the step is COMMITTED when every member said DONE with that digest.
// Bytes a member sends: k(1-w) + w(N-1) gradients for k partials and a share w of the chunks.
//
//   state      | partial        | result            | done              | tick
//   gathering  | sum when full  | copy; maybe held  | remember          | NEED what is missing
//   held       | answer result  | ignore            | remember; commit? | DONE again, NEED done
//   committed  | answer result  | ignore            | ignore            | -
// A message of another view or step never gets here: the caller routes by (view_id, step).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/collective/slice_plan.hpp"
#include "runtime/collective/tree.hpp"

namespace gpunode::collective {

// A vector of the job's length, cut into equal chunks (the last may be shorter). Depends on the
// element count alone, so chunk borders are the same whoever takes part.
struct ChunkLayout {
  std::uint64_t element_count = 0;
  std::uint64_t chunk_elements = 0;
  static ChunkLayout of(std::uint64_t element_count);
  std::uint32_t chunk_count() const;
  std::uint64_t first(std::uint32_t chunk) const;
  std::uint64_t size(std::uint32_t chunk) const;
};

// Shared, immutable vector of fp32: a partial sum or a result.
using SharedFloats = std::shared_ptr<const std::vector<float>>;

// What was fed into a sum: hash sum over (sample index, bytes) and the number of samples.
struct Fed {
  Digest hash_sum;
  std::uint64_t sample_count = 0;
  bool operator==(const Fed&) const = default;
  Fed& operator+=(const Fed& other) {
    hash_sum += other.hash_sum;
    sample_count += other.sample_count;
    return *this;
  }
};

// Messages of the exchange. `payload` holds the chunk's floats, little-endian.
struct PartialChunk {
  std::uint32_t chunk = 0;
  TreeNode node;
  Fed fed;  // of the node's slices; the same in every chunk
  SharedBytes payload;
};
struct ResultChunk {
  std::uint32_t chunk = 0;
  Fed fed;  // of the whole step
  SharedBytes payload;
};
struct Done {
  Digest result;  // of the whole result and of what was fed
  Fed fed;
  std::uint32_t compute_us = 0;  // quantised compute time of the sender for this step
};
// Asks a peer for what did not arrive: partials as an owner, results as a member, or its DONE.
struct Need {
  std::vector<std::uint32_t> partial_chunks;
  std::vector<std::uint32_t> result_chunks;
  bool done = false;
};
using ExchangeMessage = std::variant<PartialChunk, ResultChunk, Done, Need>;

struct SendTo {
  std::uint16_t rank = 0;
  ExchangeMessage message;
};

// out = inputs[0] + inputs[1] (+ inputs[2] ...), left to right, elementwise in fp32. `out` may be
// one of the inputs. Handed in from kernels/ops; tests hand in a plain loop.
using AddFn =
    std::function<void(float* out, std::span<const float* const> inputs, std::size_t count)>;

class ExactExchange {
 public:
  struct Options {
    std::uint16_t rank = 0;
    std::uint16_t member_count = 1;
    std::uint32_t owner_rotation = 0;
    Tree tree = Tree::of_slices(1);
    SlicePlan plan;
    ChunkLayout layout;
    AddFn add;
    Duration need_after = std::chrono::milliseconds(500);  // silence before the first NEED
  };

  ExactExchange(Options options, Time now);

  // A finished partial sum of one of this member's cover nodes (element_count floats). Partials may
  // come in any order and before or after messages of peers. Each node once.
  void on_partial(Time now, TreeNode node, SharedFloats sum, Fed fed, std::vector<SendTo>& out);
  // The compute time of this member that its DONE tells; told before its last partial.
  void set_compute_us(std::uint32_t compute_us);
  // Bad messages (unknown node, wrong length, foreign chunk) are dropped and counted.
  void on_message(Time now, std::uint16_t from, const ExchangeMessage& message,
                  std::vector<SendTo>& out);
  void on_tick(Time now, std::vector<SendTo>& out);
  // The connection to a peer came back: what it may have missed is sent again.
  void on_reconnected(Time now, std::uint16_t peer, std::vector<SendTo>& out);

  bool held() const;            // the whole result is here
  bool committed() const;       // and every member holds the same
  bool disagreed() const;       // a peer's DONE carries another digest: the view must freeze
  SharedFloats result() const;  // when held
  Digest result_digest() const;
  Fed fed() const;
  std::vector<TreeNode> own_cover() const;
  std::vector<std::uint16_t> waiting_for() const;  // ranks whose bytes or DONE are missing
  std::uint64_t dropped_messages() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace gpunode::collective
