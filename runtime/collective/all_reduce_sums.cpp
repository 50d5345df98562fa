// Slots, sums and what follows from them: a chunk whose partials are all here is summed and sent to
// all; a member that has every result says DONE; equal DONEs of all commit the step.
#include "runtime/collective/all_reduce.hpp"

#include <algorithm>
#include <utility>

#include "runtime/collective/result_digest.hpp"

namespace gpunode::collective {

AllReduce::AllReduce(Options given, Time now) : options_(std::move(given)), own_last_(now) {
  GPUNODE_CHECK(options_.rank < options_.member_count, "rank outside the view");
  GPUNODE_CHECK(options_.plan.fits(options_.tree, options_.member_count), "plan of another view");
  GPUNODE_CHECK(options_.add != nullptr, "no addition");
  times_.site = options_.site;
  if (!options_.form || options_.member_count == 1) options_.form = chunk_form_of(nullptr);
  GPUNODE_CHECK(options_.form->is_plain() || !options_.route, "packed sums go by no route");
  for (TreeNode node : options_.tree.cover(options_.plan.slices_of(options_.rank)))
    cover_.push_back({node});
  std::ranges::sort(cover_, {}, &CoverNode::node);
  stations_ = SumStation::of(options_.route.get(), options_.tree, options_.plan,
                             options_.member_count, options_.rank);

  peers_.resize(options_.member_count, Peer{0, 0, {}, now, now, options_.need_after});
  chunks_.resize(options_.layout.chunk_count());
  results_missing_ = options_.layout.chunk_count();
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const SumStation& station = station_of(chunk);
    if (station.next != options_.rank) ++peers_[station.next].missing_results;
    if (station.passes()) continue;
    chunks_[chunk].slots.resize(station.inputs.size());
    chunks_[chunk].missing = static_cast<std::uint32_t>(station.inputs.size());
    for (const SumStation::Input& input : station.inputs) ++peers_[input.rank].missing_partials;
  }
  if (options_.member_count == 1) return;  // the result will be the only partial
  options_.form->on_begin(options_.layout.element_count);
  for (std::uint32_t chunk = 0; chunk < chunks_.size() && cover_.empty(); ++chunk)
    if (owner_of(chunk) != options_.rank) options_.form->keep(part_of(chunk));
  buffer_ = options_.result_buffer ? std::move(options_.result_buffer)
                                   : std::make_shared<std::vector<float>>();
  buffer_->resize(options_.layout.element_count);
  result_ = buffer_;
  if (!options_.form->is_plain()) return;
  std::vector<std::optional<ChunkPlaces::Use>> uses;
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) uses.push_back(place_use(chunk));
  places_ = std::make_shared<ChunkPlaces>(buffer_, options_.layout, std::move(uses));
}

// Of a chunk of its own, one partial sum that is added in its place.
std::optional<ChunkPlaces::Use> AllReduce::place_use(std::uint32_t chunk) const {
  const SumStation& station = station_of(chunk);
  if (station.next != options_.rank) return ChunkPlaces::Use{station.next, std::nullopt};
  const SumStation::Output& root = station.outputs.front();
  for (std::size_t index = 0; index < root.inputs.size(); ++index) {
    const SumStation::Input& input = station.inputs[root.inputs[index]];
    if (input.rank != options_.rank && root.program.may_be_output(index))
      return ChunkPlaces::Use{input.rank, input.node};
  }
  return std::nullopt;
}

AllReduce::CoverNode* AllReduce::find(TreeNode node) {
  const auto at = std::ranges::lower_bound(cover_, node, {}, &CoverNode::node);
  return at != cover_.end() && at->node == node ? &*at : nullptr;
}

PartialChunk AllReduce::partial_of(CoverNode& cover_node, std::uint32_t chunk) {
  cover_node.packed.resize(chunks_.size());
  SharedBytes& packed = cover_node.packed[chunk];
  const bool carries = &cover_node == &cover_.front();
  if (!packed.owner) packed = options_.form->pack_partial(cover_node.own, part_of(chunk), carries);
  return {chunk, cover_node.node, *cover_node.data_fingerprint, packed};
}

ResultChunk AllReduce::result_of(std::uint32_t chunk) const {
  if (const SharedBytes& packed = chunks_[chunk].packed; packed.owner)
    return {chunk, *total_, packed};
  return {chunk, *total_, result_.part(part_of(chunk))};
}

// Results leave first, as others wait for them; then partials, chunk by chunk, the chunks of the
// next rank first so that not all members fall on one owner.
void AllReduce::add_final(Time now, CoverNode& cover_node, std::uint64_t first, std::uint64_t count,
                          std::vector<SendTo>& out) {
  const ChunkLayout& layout = options_.layout;
  if (count == 0 && layout.element_count > 0) return;
  own_last_ = now;
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

void AllReduce::send_final(Time now, CoverNode& cover_node, std::vector<std::uint32_t> ready,
                           std::vector<SendTo>& out) {
  const SharedFloats& sum = cover_node.own;
  for (std::uint32_t chunk : ready) {
    SumStation& station = station_of(chunk);
    if (station.passes() || chunks_[chunk].here) continue;
    const std::uint32_t index = *station.input_of(options_.rank, cover_node.node);
    station.inputs[index].data_fingerprint = cover_node.data_fingerprint;
    fill(now, chunk, index, {buffer_ ? sum.part(part_of(chunk)) : SharedBytes()}, out);
  }
  std::erase_if(ready, [this](std::uint32_t chunk) { return !station_of(chunk).passes(); });
  const auto distance = [this](std::uint32_t chunk) {
    return (owner_of(chunk) + options_.member_count - options_.rank) % options_.member_count;
  };
  const auto group = [this](std::uint32_t chunk) {
    return (std::uint64_t{chunk} + options_.owner_rotation) / options_.member_count;
  };
  std::ranges::stable_sort(
      ready, {}, [&](std::uint32_t chunk) { return std::pair(group(chunk), distance(chunk)); });
  for (std::uint32_t chunk : ready)
    out.push_back({station_of(chunk).next, partial_of(cover_node, chunk)});
}

// Puts a partial in its slot of a chunk; the last one sums an owned chunk and sends the result.
void AllReduce::fill(Time now, std::uint32_t chunk, std::size_t index, Slot slot,
                     std::vector<SendTo>& out) {
  Chunk& state = chunks_[chunk];
  slot.filled = true;
  state.slots[index] = std::move(slot);
  const SumStation& station = station_of(chunk);
  Peer& source = peers_[station.inputs[index].rank];
  if (--source.missing_partials == 0) source.partials_here = now;
  --state.missing;
  if (station.next != options_.rank) return send_on(chunk, index, out);
  if (state.missing > 0) return;

  DataFingerprint data_fingerprint;
  for (const SumStation::Input& input : station.inputs) data_fingerprint += *input.data_fingerprint;
  if (!adopt(data_fingerprint)) return;
  if (buffer_) {
    std::vector<const float*> inputs;
    for (std::size_t input = 0; input < state.slots.size(); ++input)
      inputs.push_back(floats_of(chunk, input));
    const std::span<float> place = buffer_of(chunk);
    station.outputs.front().program.run(inputs, place.data(), place.size(), options_.add, scratch_);
    state.packed = options_.form->pack_result(place, part_of(chunk));
  }
  chunk_is_here(chunk, result_.digest(part_of(chunk)));
  send_result(chunk, out);
  hold_when_whole(now, out);
}

// A member's own partial sum is never packed for itself.
const float* AllReduce::floats_of(std::uint32_t chunk, std::size_t index) const {
  const ByteView bytes = chunks_[chunk].slots[index].bytes.view;
  if (station_of(chunk).inputs[index].rank == options_.rank)
    return reinterpret_cast<const float*>(bytes.data());
  return options_.form->unpack_partial(bytes, options_.layout.size(chunk), index);
}

void AllReduce::chunk_is_here(std::uint32_t chunk, const Digest& digest) {
  Chunk& state = chunks_[chunk];
  state.here = true;
  state.slots = {};
  state.sums = {};
  state.digest = digest;
  --results_missing_;
  arrived_.push_back(part_of(chunk));
}

// All owners must have summed the same samples.
bool AllReduce::adopt(const DataFingerprint& data_fingerprint) {
  if (!total_) total_ = data_fingerprint;
  if (*total_ == data_fingerprint) return true;
  disagreed_ = true;
  return false;
}

void AllReduce::hold_when_whole(Time now, std::vector<SendTo>& out) {
  std::optional<Done>& own = peers_[options_.rank].done;
  if (results_missing_ > 0 || own) return;
  measure(now);
  const auto digest_of_chunk = [this](std::uint32_t chunk) { return chunks_[chunk].digest; };
  own = Done{result_digest_of(options_.layout, digest_of_chunk, *total_), *total_, times_};
  for (std::uint16_t rank = 0; rank < options_.member_count; ++rank) heard(now, rank);
  for (std::uint32_t step = 1; step < options_.member_count; ++step)
    out.push_back(
        {static_cast<std::uint16_t>((options_.rank + step) % options_.member_count), *own});
  compare_dones();
}

// How long the result took, and whose partial sums were waited for; where sums come by way of
// others, or of devices, nobody can tell.
void AllReduce::measure(Time now) {
  times_.gather_us = microseconds(now - own_last_);
  if (options_.route || is_carried_) return;
  bool owns_any = false;
  for (std::uint32_t chunk = 0; chunk < chunks_.size() && !owns_any; ++chunk)
    owns_any = owner_of(chunk) == options_.rank;
  if (!owns_any) return;
  Time last = own_last_, second{};
  times_.last_rank = options_.rank;
  for (std::uint16_t rank = 0; rank < peers_.size(); ++rank) {
    if (rank == options_.rank) continue;
    const Time here = peers_[rank].partials_here;
    second = std::max(second, std::min(last, here));
    if (here > last) {
      last = here;
      times_.last_rank = rank;
    }
  }
  if (peers_.size() > 1) times_.last_us = microseconds(last - second);
}

void AllReduce::compare_dones() {
  const Done* first = nullptr;
  for (const Peer& peer : peers_) {
    if (!peer.done) continue;
    if (!first) first = &*peer.done;
    if (peer.done->result != first->result ||
        peer.done->data_fingerprint != first->data_fingerprint)
      disagreed_ = true;
  }
}

bool AllReduce::committed() const {
  return !disagreed_ &&
         std::ranges::all_of(peers_, [](const Peer& peer) { return peer.done.has_value(); });
}

void AllReduce::heard(Time now, std::uint16_t rank) {
  peers_[rank].quiet_since = now;
  peers_[rank].timeout = options_.need_after;
}

}  // namespace gpunode::collective
