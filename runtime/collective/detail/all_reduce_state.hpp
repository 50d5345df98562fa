// The inside of AllReduce, split over four sources: all_reduce.cpp (the interface),
// all_reduce_sums.cpp (slots, sums and the DONE that follows), all_reduce_relay.cpp (sums and
// results on their way through this member) and all_reduce_inputs.cpp (what peers say, and what is
// asked of them). By which way chunks travel and as which bytes is told by SumStation and
// ChunkForm. Pure; owned by its AllReduce.
#pragma once

#include <optional>
#include <vector>

#include "runtime/collective/all_reduce.hpp"
#include "runtime/collective/sum_station.hpp"

namespace gpunode::collective {

struct AllReduce::State {
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

  State(Options given, Time now);

  std::uint16_t owner_of(std::uint32_t chunk) const {
    return static_cast<std::uint16_t>((std::uint64_t{chunk} + options.owner_rotation) %
                                      options.member_count);
  }
  SumStation& station_of(std::uint32_t chunk) { return stations[owner_of(chunk)]; }
  const SumStation& station_of(std::uint32_t chunk) const { return stations[owner_of(chunk)]; }
  // Something is missing of that peer before the result can be whole.
  bool lacks_bytes(std::uint16_t rank) const {
    const Peer& peer = peers[rank];
    return peer.missing_partials > 0 || peer.missing_results > 0;
  }
  CoverNode* find(TreeNode node);
  ByteView place_of(std::uint32_t chunk) const {
    return std::as_bytes(std::span(*result))
        .subspan(static_cast<std::size_t>(options.layout.first(chunk)) * sizeof(float),
                 static_cast<std::size_t>(options.layout.size(chunk)) * sizeof(float));
  }
  Elements part_of(std::uint32_t chunk) const {
    return {options.layout.first(chunk), options.layout.size(chunk)};
  }
  std::span<float> buffer_of(std::uint32_t chunk) {
    return std::span(*buffer).subspan(options.layout.first(chunk), options.layout.size(chunk));
  }
  const float* floats_of(std::uint32_t chunk, std::size_t index) const;
  bool is_final(const CoverNode& cover_node, std::uint32_t chunk) const {
    return cover_node.own && cover_node.final_elements[chunk] == options.layout.size(chunk);
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
  bool adopt(const DataFingerprint& total);
  void hold_when_whole(Time now, std::vector<SendTo>& out);
  void measure(Time now);
  void compare_dones();
  bool committed() const;
  void heard(Time now, std::uint16_t rank);
  void ask(Time now, std::uint16_t rank, std::vector<SendTo>& out);
  void send_to_others(const ExchangeMessage& message, std::vector<SendTo>& out) const;

  void on(Time now, std::uint16_t from, const PartialChunk& message, std::vector<SendTo>& out);
  void on(Time now, std::uint16_t from, const ResultChunk& message, std::vector<SendTo>& out);
  void on(Time now, std::uint16_t from, const Done& message);
  void on(std::uint16_t from, const Need& message, std::vector<SendTo>& out);
  bool in_order(const std::vector<std::uint32_t>& chunks) const;

  Options options;
  std::vector<CoverNode> cover;      // this member's, ordered by node
  std::vector<SumStation> stations;  // by owner: this member's part in the chunks of each
  std::vector<float> scratch;        // of the programs that sum
  std::vector<Chunk> chunks;
  std::uint32_t results_missing = 0;
  std::vector<Elements> arrived;               // and not told yet
  std::shared_ptr<std::vector<float>> buffer;  // null if the result is this member's own partial
  std::shared_ptr<ChunkPlaces> places;         // of the buffer; null: nothing is read there
  SharedFloats result;                         // the buffer, or that partial
  std::optional<DataFingerprint> total;
  std::vector<Peer> peers;  // by rank; this member's own entry only keeps what it said
  StepTimes times;
  Time own_last{};  // when this member's last partial sum was final
  std::uint64_t dropped = 0;
  bool disagreed = false;
};

}  // namespace gpunode::collective
