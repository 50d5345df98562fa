// Slots, sums and what follows from them: a chunk whose partials are all here is summed and sent to
// all; a member that has every result says DONE; equal DONEs of all commit the step.
#include "runtime/collective/detail/all_reduce_state.hpp"

#include <algorithm>
#include <utility>

namespace gpunode::collective {

AllReduce::State::State(Options given, Time now) : options(std::move(given)), own_last(now) {
  GPUNODE_CHECK(options.rank < options.member_count, "rank outside the view");
  GPUNODE_CHECK(options.plan.fits(options.tree, options.member_count), "plan of another view");
  GPUNODE_CHECK(options.add != nullptr, "no addition");
  times.site = options.site;
  if (!options.form || options.member_count == 1) options.form = chunk_form_of(nullptr);
  GPUNODE_CHECK(options.form->is_plain() || !options.route, "packed sums go by no route");
  for (TreeNode node : options.tree.cover(options.plan.slices_of(options.rank)))
    cover.push_back({node});
  std::sort(cover.begin(), cover.end(),
            [](const CoverNode& a, const CoverNode& b) { return a.node < b.node; });
  stations = SumStation::of(options.route.get(), options.tree, options.plan, options.member_count,
                            options.rank);

  peers.resize(options.member_count, Peer{0, 0, {}, now, now, options.need_after});
  chunks.resize(options.layout.chunk_count());
  results_missing = options.layout.chunk_count();
  for (std::uint32_t chunk = 0; chunk < chunks.size(); ++chunk) {
    const SumStation& station = station_of(chunk);
    if (station.next != options.rank) ++peers[station.next].missing_results;
    if (station.passes()) continue;
    chunks[chunk].slots.resize(station.inputs.size());
    chunks[chunk].missing = static_cast<std::uint32_t>(station.inputs.size());
    for (const SumStation::Input& input : station.inputs) ++peers[input.rank].missing_partials;
  }
  if (options.member_count == 1) return;  // the result will be the only partial
  options.form->on_begin(options.layout.element_count);
  for (std::uint32_t chunk = 0; chunk < chunks.size() && cover.empty(); ++chunk)
    if (owner_of(chunk) != options.rank) options.form->keep(part_of(chunk));
  buffer = options.result_buffer ? std::move(options.result_buffer)
                                 : std::make_shared<std::vector<float>>();
  buffer->resize(options.layout.element_count);
  result = buffer;
  if (!options.form->is_plain()) return;
  std::vector<std::optional<ChunkPlaces::Use>> uses;
  for (std::uint32_t chunk = 0; chunk < chunks.size(); ++chunk) uses.push_back(place_use(chunk));
  places = std::make_shared<ChunkPlaces>(buffer, options.layout, std::move(uses));
}

// Of a chunk of its own, one partial sum that is added in its place.
std::optional<ChunkPlaces::Use> AllReduce::State::place_use(std::uint32_t chunk) const {
  const SumStation& station = station_of(chunk);
  if (station.next != options.rank) return ChunkPlaces::Use{station.next, std::nullopt};
  const SumStation::Output& root = station.outputs.front();
  for (std::size_t index = 0; index < root.inputs.size(); ++index) {
    const SumStation::Input& input = station.inputs[root.inputs[index]];
    if (input.rank != options.rank && root.program.may_be_output(index))
      return ChunkPlaces::Use{input.rank, input.node};
  }
  return std::nullopt;
}

AllReduce::State::CoverNode* AllReduce::State::find(TreeNode node) {
  auto at = std::lower_bound(cover.begin(), cover.end(), node,
                             [](const CoverNode& a, TreeNode b) { return a.node < b; });
  return at != cover.end() && at->node == node ? &*at : nullptr;
}

PartialChunk AllReduce::State::partial_of(CoverNode& cover_node, std::uint32_t chunk) {
  cover_node.packed.resize(chunks.size());
  SharedBytes& packed = cover_node.packed[chunk];
  const bool carries = &cover_node == &cover.front();
  if (!packed.owner) packed = options.form->pack_partial(cover_node.own, part_of(chunk), carries);
  return {chunk, cover_node.node, *cover_node.data_fingerprint, packed};
}

ResultChunk AllReduce::State::result_of(std::uint32_t chunk) const {
  if (const SharedBytes& packed = chunks[chunk].packed; packed.owner)
    return {chunk, *total, packed};
  return {chunk, *total, {result, place_of(chunk)}};
}

void AllReduce::State::send_to_others(const ExchangeMessage& message,
                                      std::vector<SendTo>& out) const {
  for (std::uint32_t step = 1; step < options.member_count; ++step)
    out.push_back(
        {static_cast<std::uint16_t>((options.rank + step) % options.member_count), message});
}

// Results leave first, as others wait for them; then partials, chunk by chunk, the chunks of the
// next rank first so that not all members fall on one owner.
void AllReduce::State::add_final(Time now, CoverNode& cover_node, std::uint64_t first,
                                 std::uint64_t count, std::vector<SendTo>& out) {
  const ChunkLayout& layout = options.layout;
  if (count == 0 && layout.element_count > 0) return;
  own_last = now;
  std::uint32_t begin = static_cast<std::uint32_t>(first / layout.chunk_elements);
  std::uint32_t end =
      count == 0 ? 1 : static_cast<std::uint32_t>((first + count - 1) / layout.chunk_elements) + 1;
  std::vector<std::uint32_t> ready;
  for (std::uint32_t chunk = begin; chunk < end; ++chunk) {
    std::uint64_t from = std::max(first, layout.first(chunk));
    std::uint64_t to = std::min(first + count, layout.first(chunk) + layout.size(chunk));
    cover_node.final_elements[chunk] += to - from;
    GPUNODE_CHECK(cover_node.final_elements[chunk] <= layout.size(chunk),
                  "an element of a partial sum was told twice");
    if (is_final(cover_node, chunk)) ready.push_back(chunk);
  }
  send_final(now, cover_node, std::move(ready), out);
}

void AllReduce::State::send_final(Time now, CoverNode& cover_node, std::vector<std::uint32_t> ready,
                                  std::vector<SendTo>& out) {
  const ChunkLayout& layout = options.layout;
  const SharedFloats& sum = cover_node.own;
  for (std::uint32_t chunk : ready) {
    SumStation& station = station_of(chunk);
    if (station.passes()) continue;
    const std::uint32_t index = *station.input_of(options.rank, cover_node.node);
    station.inputs[index].data_fingerprint = cover_node.data_fingerprint;
    const ByteView bytes = std::as_bytes(std::span(*sum));
    fill(now, chunk, index,
         {{sum,
           bytes.subspan(layout.first(chunk) * sizeof(float), layout.size(chunk) * sizeof(float))}},
         out);
  }
  std::erase_if(ready, [this](std::uint32_t chunk) { return !station_of(chunk).passes(); });
  const auto distance = [this](std::uint32_t chunk) {
    return (owner_of(chunk) + options.member_count - options.rank) % options.member_count;
  };
  const auto group = [this](std::uint32_t chunk) {
    return (std::uint64_t{chunk} + options.owner_rotation) / options.member_count;
  };
  std::ranges::stable_sort(
      ready, {}, [&](std::uint32_t chunk) { return std::pair(group(chunk), distance(chunk)); });
  for (std::uint32_t chunk : ready)
    out.push_back({station_of(chunk).next, partial_of(cover_node, chunk)});
}

// Puts a partial in its slot of a chunk; the last one sums an owned chunk and sends the result.
void AllReduce::State::fill(Time now, std::uint32_t chunk, std::size_t index, Slot slot,
                            std::vector<SendTo>& out) {
  Chunk& state = chunks[chunk];
  slot.filled = true;
  state.slots[index] = std::move(slot);
  const SumStation& station = station_of(chunk);
  Peer& source = peers[station.inputs[index].rank];
  if (--source.missing_partials == 0) source.partials_here = now;
  --state.missing;
  if (station.next != options.rank) return send_on(chunk, index, out);
  if (state.missing > 0) return;

  DataFingerprint data_fingerprint;
  for (const SumStation::Input& input : station.inputs) data_fingerprint += *input.data_fingerprint;
  if (!adopt(data_fingerprint)) return;
  if (buffer) {
    std::vector<const float*> inputs;
    for (std::size_t input = 0; input < state.slots.size(); ++input)
      inputs.push_back(floats_of(chunk, input));
    const std::span<float> place = buffer_of(chunk);
    station.outputs.front().program.run(inputs, place.data(), place.size(), options.add, scratch);
    state.packed = options.form->pack_result(place, part_of(chunk));
  }
  chunk_is_here(chunk, digest_of(place_of(chunk)));
  send_result(chunk, out);
  hold_when_whole(now, out);
}

// A member's own partial sum is never packed for itself.
const float* AllReduce::State::floats_of(std::uint32_t chunk, std::size_t index) const {
  const ByteView bytes = chunks[chunk].slots[index].bytes.view;
  if (station_of(chunk).inputs[index].rank == options.rank)
    return reinterpret_cast<const float*>(bytes.data());
  return options.form->unpack_partial(bytes, options.layout.size(chunk), index);
}

void AllReduce::State::chunk_is_here(std::uint32_t chunk, const Digest& digest) {
  Chunk& state = chunks[chunk];
  state.here = true;
  state.slots = {};
  state.sums = {};
  state.digest = digest;
  --results_missing;
  arrived.push_back(part_of(chunk));
}

// All owners must have summed the same samples.
bool AllReduce::State::adopt(const DataFingerprint& data_fingerprint) {
  if (!total) total = data_fingerprint;
  if (*total == data_fingerprint) return true;
  disagreed = true;
  return false;
}

void AllReduce::State::hold_when_whole(Time now, std::vector<SendTo>& out) {
  std::optional<Done>& own = peers[options.rank].done;
  if (results_missing > 0 || own) return;
  Bytes digests;
  digests.reserve(chunks.size() * 16 + 24);
  for (const Chunk& chunk : chunks) {
    append_number(digests, chunk.digest.high);
    append_number(digests, chunk.digest.low);
  }
  append_number(digests, total->hash_sum.high);
  append_number(digests, total->hash_sum.low);
  append_number(digests, total->sample_count);
  measure(now);
  own = Done{digest_of(digests), *total, times};
  for (std::uint16_t rank = 0; rank < options.member_count; ++rank) heard(now, rank);
  send_to_others(*own, out);
  compare_dones();
}

// How long the result took, and whose partial sums were waited for; where sums come by way of
// others nobody can tell.
void AllReduce::State::measure(Time now) {
  times.gather_us = microseconds(now - own_last);
  if (options.route) return;
  bool owns_any = false;
  for (std::uint32_t chunk = 0; chunk < chunks.size() && !owns_any; ++chunk)
    owns_any = owner_of(chunk) == options.rank;
  if (!owns_any) return;
  Time last = own_last, second{};
  times.last_rank = options.rank;
  for (std::uint16_t rank = 0; rank < peers.size(); ++rank) {
    if (rank == options.rank) continue;
    const Time here = peers[rank].partials_here;
    second = std::max(second, std::min(last, here));
    if (here > last) {
      last = here;
      times.last_rank = rank;
    }
  }
  if (peers.size() > 1) times.last_us = microseconds(last - second);
}

void AllReduce::State::compare_dones() {
  const Done* first = nullptr;
  for (const Peer& peer : peers) {
    if (!peer.done) continue;
    if (!first) first = &*peer.done;
    if (peer.done->result != first->result ||
        peer.done->data_fingerprint != first->data_fingerprint)
      disagreed = true;
  }
}

bool AllReduce::State::committed() const {
  return !disagreed &&
         std::ranges::all_of(peers, [](const Peer& peer) { return peer.done.has_value(); });
}

void AllReduce::State::heard(Time now, std::uint16_t rank) {
  peers[rank].quiet_since = now;
  peers[rank].timeout = options.need_after;
}

}  // namespace gpunode::collective
