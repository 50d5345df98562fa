// One step's all-reduce inside one view: who sends which chunk to whom, and when the step is held
// and committed. Pure: no I/O, no clock, no threads; the addition is handed in. So are wire forms,
// if chunks shall travel as fewer bytes: the sum then depends on who takes part, and is still the
// same at every member.
//
// Round 1: every member sends, for each chunk, one partial sum a cover node to the chunk's owner
// (owner of chunk c = (c + rotation) mod N). Round 2: the owner completes the tree and sends the
// result to all. A member that has every result HOLDS the step and says DONE with the digest of the
// whole result; the step is COMMITTED when every member said DONE with that digest.
// Bytes a member sends: k(1-w) + w(N-1) gradients for k partials and a share w of the chunks.
// With a route (sum_route.hpp) partials come to the owner by way of other members, each of which
// adds up what may be added; it answers for what passed it, and results return the same way.
//
//   state      | partial        | result            | done              | tick
//   gathering  | sum when full  | copy; maybe held  | remember          | NEED what is missing
//   held       | ignore         | ignore            | remember; commit? | DONE again, NEED done
//   committed  | ignore         | ignore            | ignore            | -
// A NEED is answered in every state with whatever of it is here: partials and results are kept
// until the object dies, so the caller keeps the object of a step until the next step is committed.
// A message of another view or step never gets here: the caller routes by (view_id, step).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/collective/chunk_form.hpp"
#include "runtime/collective/chunk_places.hpp"
#include "runtime/collective/exchange_message.hpp"
#include "runtime/collective/shared_floats.hpp"
#include "runtime/collective/slice_plan.hpp"
#include "runtime/collective/sum_program.hpp"
#include "runtime/collective/sum_route.hpp"
#include "runtime/collective/tree.hpp"

namespace gpunode::collective {

struct SendTo {
  std::uint16_t rank = 0;
  ExchangeMessage message;
};

// What a member waits for of another.
enum class Lack : std::uint8_t { nothing, partial_sums, results, confirmation };

class AllReduce {
 public:
  struct Options {
    std::uint16_t rank = 0;
    std::uint16_t member_count = 1;
    std::uint32_t owner_rotation = 0;
    Tree tree = Tree::of_slices(1);
    SlicePlan plan;
    ChunkLayout layout;
    AddFn add;
    std::uint64_t site = 0;                 // of this member, as its DONE tells it
    std::shared_ptr<const SumRoute> route;  // null: partials and results go directly; no forms else
    // How chunks travel; null: as they lie in memory. A lone member sends nothing and needs none.
    // Its on_commit is the caller's.
    std::shared_ptr<ChunkForm> form;
    Duration need_after = std::chrono::milliseconds(500);  // silence before the first NEED
    // Where the result is written, if it is not null; saves mapping a new vector each step. Nobody
    // else may hold or use it before this object and all its results are gone.
    std::shared_ptr<std::vector<float>> result_buffer;
  };

  // The plan must fit tree and member count (SlicePlan::fits).
  AllReduce(Options options, Time now);
  ~AllReduce();
  AllReduce(AllReduce&&) noexcept;
  AllReduce& operator=(AllReduce&&) noexcept;

  // Elements [first, first + count) of the partial sum of one of this member's cover nodes are
  // final; `sum` has element_count floats, of which others may still be written to. Chunks leave as
  // soon as all of their elements are final. In any order, before or after messages of peers; each
  // element once, in the same vector.
  void on_partial_range(Time now, TreeNode node, const SharedFloats& sum,
                        DataFingerprint data_fingerprint, std::uint64_t first, std::uint64_t count,
                        std::vector<SendTo>& out);
  // The whole partial sum at once.
  void on_partial(Time now, TreeNode node, SharedFloats sum, DataFingerprint data_fingerprint,
                  std::vector<SendTo>& out);
  // Times of this member that its DONE tells; told before its last partial.
  void set_times(const ComputeTimes& compute, const AfterTimes& before);
  // Bad messages (unknown node or rank, wrong length, foreign chunk, a second and other value) are
  // dropped and counted.
  void on_message(Time now, std::uint16_t from, const ExchangeMessage& message,
                  std::vector<SendTo>& out);
  void on_tick(Time now, std::vector<SendTo>& out);
  // The connection to a peer came back, which both sides see: each asks at once for what it lacks
  // of the other, and tells its DONE again.
  void on_reconnected(Time now, std::uint16_t peer, std::vector<SendTo>& out);

  // Where payloads of peers may be read into at once; null: nowhere, as of chunks in another form.
  std::shared_ptr<ChunkPlaces> places() const;

  // Elements of the result that came to be here since the last call, in `sum`, others of which are
  // still written to. Nothing has been compared with other members yet. Not for a lone member.
  struct Arrived {
    SharedFloats sum;
    std::vector<Elements> parts;
  };
  Arrived take_arrived();

  bool held() const;       // the whole result is here
  bool committed() const;  // and every member holds the same
  // Two members hold different results, or owners saw different samples: the view must freeze.
  bool disagreed() const;
  SharedFloats result() const;               // when held
  Digest result_digest() const;              // when held
  DataFingerprint data_fingerprint() const;  // when held
  Done done() const;                         // when held: this member's DONE, always the same
  // When committed: what each rank's DONE told, the same at every member.
  std::vector<StepTimes> times() const;
  // The partials that this member owes, widest first: computed in this order, only the last and
  // smallest is waited for.
  std::vector<TreeNode> own_cover() const;
  // Ranks whose bytes are missing; once held, those whose DONE is.
  std::vector<std::uint16_t> waiting_for() const;
  Lack lack_of(std::uint16_t rank) const;
  std::uint64_t dropped_messages() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpunode::collective
