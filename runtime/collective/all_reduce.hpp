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
//
// Split over four sources: all_reduce.cpp (the interface), all_reduce_sums.cpp (slots, sums and the
// DONE that follows), all_reduce_relay.cpp (sums and results on their way through this member) and
// all_reduce_inputs.cpp (what peers say, and what is asked of them). By which way chunks travel and
// as which bytes is told by SumStation and ChunkForm.
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
#include "runtime/collective/sum_station.hpp"
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
  AllReduce(AllReduce&&) = default;  // no copy: there is one of a step
  AllReduce& operator=(AllReduce&&) = default;

  // Elements [first, first + count) of the partial sum of one of this member's cover nodes are
  // final; `sum` has element_count floats, of which others may still be written to. Chunks leave as
  // soon as all of their elements are final. In any order, before or after messages of peers; each
  // element once, in the same vector. Floats that are lost are as if they were never told.
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

  // The chunks of this step go from device to device: none is asked for, and of this member's
  // partial sums none is told unless that fails. Before any of them.
  void carry() { is_carried_ = true; }
  bool is_carried() const { return is_carried_; }
  // They go by messages after all; nothing if the result is here already.
  void end_carry() { is_carried_ = is_carried_ && held(); }
  // A carried step's own partial sums are whole, and on their way.
  void on_carrying(Time now) { own_last_ = now; }
  // Its result, which others hold by the same way; floats as long as the vector.
  void on_carried(Time now, const SharedFloats& result, const DataFingerprint& data_fingerprint,
                  std::vector<SendTo>& out);
  // A peer of a carried step sent chunks, or asked for some.
  bool is_asked_for_chunks() const { return is_carried_ && asked_for_chunks_; }
  // Whether this member has the view's device group, as its DONE tells.
  void set_has_group(bool has) { times_.has_group = has; }

  // Where payloads of peers may be read into at once; null: nowhere, as of chunks in another form.
  std::shared_ptr<ChunkPlaces> places() const { return places_; }

  // Elements of the result that came to be here since the last call, in `sum`, others of which are
  // still written to. Nothing has been compared with other members yet. Not for a lone member.
  struct Arrived {
    SharedFloats sum;
    std::vector<Elements> parts;
  };
  Arrived take_arrived();

  // The whole result is here.
  bool held() const { return peers_[options_.rank].done.has_value(); }
  bool committed() const;  // and every member holds the same
  // Two members hold different results, or owners saw different samples: the view must freeze.
  bool disagreed() const { return disagreed_; }
  SharedFloats result() const;  // when held
  Digest result_digest() const { return done().result; }
  DataFingerprint data_fingerprint() const { return done().data_fingerprint; }
  Done done() const;  // when held: this member's DONE, always the same
  // When committed: what each rank's DONE told, the same at every member.
  std::vector<StepTimes> times() const;
  // The partials that this member owes, widest first: computed in this order, only the last and
  // smallest is waited for.
  std::vector<TreeNode> own_cover() const;
  // Ranks whose bytes are missing; once held, those whose DONE is.
  std::vector<std::uint16_t> waiting_for() const;
  Lack lack_of(std::uint16_t rank) const;
  std::uint64_t dropped_messages() const { return dropped_; }

 private:
  // A node of this member's cover.
  struct CoverNode {
    TreeNode node;
    std::optional<DataFingerprint> data_fingerprint = {};
    SharedFloats own = {};                           // its partial sum; kept for NEEDs
    std::vector<std::uint64_t> final_elements = {};  // of `own`, by chunk
    std::vector<SharedBytes> packed = {};            // of `own`, by chunk, once sent
  };
  // One input of a chunk's station here, as it came; freed once all is made of it.
  struct Slot {
    SharedBytes bytes;
    bool filled = false;
  };
  struct Chunk {
    std::vector<Slot> slots;  // by input of the station; empty if partial sums pass it by
    std::uint32_t missing = 0;
    std::vector<SharedBytes> sums = {};  // by output of a station on the way; kept for NEEDs
    bool here = false;                   // the result is in its place
    Digest digest;
    SharedBytes packed;  // the result, if this member owns it and it travels as other bytes
  };
  struct Peer {
    std::uint32_t missing_partials = 0;
    std::uint32_t missing_results = 0;
    std::optional<Done> done;
    Time partials_here{};  // when the last of them came, for the chunks that this member owns
    Time quiet_since{};
    Duration timeout{};
  };

  std::uint16_t owner_of(std::uint32_t chunk) const {
    return owner_of_chunk(chunk, options_.owner_rotation, options_.member_count);
  }
  SumStation& station_of(std::uint32_t chunk) { return stations_[owner_of(chunk)]; }
  const SumStation& station_of(std::uint32_t chunk) const { return stations_[owner_of(chunk)]; }
  // Something is missing of that peer before the result can be whole.
  bool lacks_bytes(std::uint16_t rank) const {
    const Peer& peer = peers_[rank];
    return peer.missing_partials > 0 || peer.missing_results > 0;
  }
  CoverNode* find(TreeNode node);
  Elements part_of(std::uint32_t chunk) const {
    return {options_.layout.first(chunk), options_.layout.size(chunk)};
  }
  std::span<float> buffer_of(std::uint32_t chunk) {
    return std::span(*buffer_).subspan(options_.layout.first(chunk), options_.layout.size(chunk));
  }
  std::span<const float> floats_of_result(std::uint32_t chunk) const {
    return std::span(*result_).subspan(options_.layout.first(chunk), options_.layout.size(chunk));
  }
  const float* floats_of(std::uint32_t chunk, std::size_t index) const;
  bool is_final(const CoverNode& cover_node, std::uint32_t chunk) const {
    return cover_node.own && cover_node.final_elements[chunk] == options_.layout.size(chunk);
  }
  PartialChunk partial_of(CoverNode& cover_node, std::uint32_t chunk);
  ResultChunk result_of(std::uint32_t chunk) const;

  void add_final(Time now, CoverNode& cover_node, std::uint64_t first, std::uint64_t count,
                 std::vector<SendTo>& out);
  void fill(Time now, std::uint32_t chunk, std::size_t index, Slot slot, std::vector<SendTo>& out);
  void send_final(Time now, CoverNode& cover_node, std::vector<std::uint32_t> ready,
                  std::vector<SendTo>& out);
  // all_reduce_relay.cpp
  void send_on(std::uint32_t chunk, std::size_t index, std::vector<SendTo>& out);
  SharedBytes sum_of(std::uint32_t chunk, const SumStation::Output& output);
  PartialChunk sent_on(std::uint32_t chunk, std::size_t output) const;
  void send_result(std::uint32_t chunk, std::vector<SendTo>& out) const;
  // What of a peer may be read to the place of a chunk.
  std::optional<ChunkPlaces::Use> place_use(std::uint32_t chunk) const;
  void chunk_is_here(std::uint32_t chunk, const Digest& digest);
  bool adopt(const DataFingerprint& data_fingerprint);
  void hold_when_whole(Time now, std::vector<SendTo>& out);
  void measure(Time now);
  void compare_dones();
  void heard(Time now, std::uint16_t rank);
  void ask(Time now, std::uint16_t rank, std::vector<SendTo>& out);

  void on(Time now, std::uint16_t from, const PartialChunk& message, std::vector<SendTo>& out);
  void on(Time now, std::uint16_t from, const ResultChunk& message, std::vector<SendTo>& out);
  void on(Time now, std::uint16_t from, const Done& message, std::vector<SendTo>& out);
  void on(Time now, std::uint16_t from, const Need& message, std::vector<SendTo>& out);
  bool in_order(const std::vector<std::uint32_t>& list) const;

  Options options_;
  std::vector<CoverNode> cover_;      // this member's, ordered by node
  std::vector<SumStation> stations_;  // by owner: this member's part in the chunks of each
  std::vector<float> scratch_;        // of the programs that sum
  std::vector<Chunk> chunks_;
  std::uint32_t results_missing_ = 0;
  std::vector<Elements> arrived_;               // and not told yet
  std::shared_ptr<std::vector<float>> buffer_;  // null if the result is this member's own partial
  std::shared_ptr<ChunkPlaces> places_;         // of the buffer; null: nothing is read there
  SharedFloats result_;                         // the buffer, or that partial
  std::optional<DataFingerprint> total_;
  std::vector<Peer> peers_;  // by rank; this member's own entry only keeps what it said
  StepTimes times_;
  Time own_last_{};  // when this member's last partial sum was final
  std::uint64_t dropped_ = 0;
  bool disagreed_ = false;
  bool is_carried_ = false;
  bool asked_for_chunks_ = false;
};

}  // namespace gpunode::collective
