// What peers say to an exchange, and what is asked of those who fell silent.
#include "runtime/collective/all_reduce.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace gpunode::collective {

namespace {

constexpr int kMostTimeout = 4;  // times need_after between two NEEDs to a silent peer

}  // namespace

// Asks a peer for all that is missing of it.
void AllReduce::ask(Time now, std::uint16_t rank, std::vector<SendTo>& out) {
  Peer& peer = peers_[rank];
  Need need;
  // A carried step brings no bytes of the others, so they are asked whether they are there.
  need.done = !peer.done || (is_carried_ && !held());
  const bool lacks_chunks = !is_carried_ && lacks_bytes(rank);
  for (std::uint32_t chunk = 0; chunk < chunks_.size() && lacks_chunks; ++chunk) {
    const Chunk& state = chunks_[chunk];
    const SumStation& station = station_of(chunk);
    if (station.next == rank && !state.here) need.result_chunks.push_back(chunk);
    for (std::size_t index = 0; index < state.slots.size(); ++index) {
      if (station.inputs[index].rank != rank || state.slots[index].filled) continue;
      need.partial_chunks.push_back(chunk);
      break;
    }
  }
  if (need.done || !need.result_chunks.empty() || !need.partial_chunks.empty())
    out.push_back({rank, std::move(need)});
  peer.quiet_since = now;
  peer.timeout = std::min(peer.timeout * 2, options_.need_after * kMostTimeout);
}

void AllReduce::on(Time now, std::uint16_t from, const PartialChunk& message,
                   std::vector<SendTo>& out) {
  if (message.chunk >= chunks_.size() ||
      message.payload.size() != options_.form->partial_bytes(options_.layout.size(message.chunk))) {
    ++dropped_;
    return;
  }
  SumStation& station = station_of(message.chunk);
  const auto found = station.input_of(from, message.node);
  if (!found || (station.inputs[*found].data_fingerprint &&
                 *station.inputs[*found].data_fingerprint != message.data_fingerprint)) {
    ++dropped_;
    return;
  }
  asked_for_chunks_ = true;
  const std::uint32_t index = *found;
  Chunk& chunk = chunks_[message.chunk];
  if (chunk.slots.empty()) return;  // summed already: a duplicate
  const std::byte* bytes = message.payload.view.data();
  if (const Slot& known = chunk.slots[index]; known.filled) {
    if (!std::ranges::equal(known.bytes.view, message.payload.view)) ++dropped_;
    return;
  }
  if (places_ && !places_->close(message.chunk, {from, message.node}, bytes)) {
    ++dropped_;
    return;
  }
  station.inputs[index].data_fingerprint = message.data_fingerprint;
  heard(now, from);
  fill(now, message.chunk, index, {message.payload}, out);
}

void AllReduce::on(Time now, std::uint16_t from, const ResultChunk& message,
                   std::vector<SendTo>& out) {
  if (message.chunk >= chunks_.size() || station_of(message.chunk).next != from ||
      message.payload.size() != options_.form->result_bytes(options_.layout.size(message.chunk))) {
    ++dropped_;
    return;
  }
  asked_for_chunks_ = true;
  ByteView bytes = message.payload.view;
  Chunk& chunk = chunks_[message.chunk];
  if (chunk.here) {
    if (message.data_fingerprint != *total_ ||
        !options_.form->repeats_result(bytes, floats_of_result(message.chunk)))
      ++dropped_;
    return;
  }
  const bool free = !places_ || places_->close(message.chunk, {from, std::nullopt}, bytes.data());
  if (!free || !adopt(message.data_fingerprint)) {
    ++dropped_;
    return;
  }
  chunk_is_here(message.chunk, options_.form->unpack_result(bytes, buffer_of(message.chunk)));
  --peers_[from].missing_results;
  heard(now, from);
  send_result(message.chunk, out);
  hold_when_whole(now, out);
}

void AllReduce::on(Time now, std::uint16_t from, const Done& message, std::vector<SendTo>&) {
  std::optional<Done>& known = peers_[from].done;
  if (known) {
    if (*known != message) ++dropped_;
    return;
  }
  known = message;
  heard(now, from);
  compare_dones();
}

bool AllReduce::in_order(const std::vector<std::uint32_t>& list) const {
  return std::ranges::adjacent_find(list, std::ranges::greater_equal()) == list.end() &&
         (list.empty() || list.back() < chunks_.size());
}

void AllReduce::on(Time, std::uint16_t from, const Need& message, std::vector<SendTo>& out) {
  const auto sums_go_there = [&](std::uint32_t chunk) { return station_of(chunk).next == from; };
  const auto result_goes_there = [&](std::uint32_t chunk) {
    return std::ranges::count(station_of(chunk).before, from) > 0;
  };
  if (!in_order(message.partial_chunks) || !in_order(message.result_chunks) ||
      !std::ranges::all_of(message.partial_chunks, sums_go_there) ||
      !std::ranges::all_of(message.result_chunks, result_goes_there)) {
    ++dropped_;
    return;
  }
  if (!message.partial_chunks.empty() || !message.result_chunks.empty()) asked_for_chunks_ = true;
  // Who said DONE has every result, and whose result is here has every partial: an old question.
  for (std::uint32_t chunk : message.result_chunks)
    if (chunks_[chunk].here && !peers_[from].done) out.push_back({from, result_of(chunk)});
  for (std::uint32_t chunk : message.partial_chunks) {
    if (chunks_[chunk].here && !is_carried_) continue;
    for (CoverNode& cover_node : cover_)
      if (station_of(chunk).passes() && is_final(cover_node, chunk))
        out.push_back({from, partial_of(cover_node, chunk)});
    for (std::size_t output = 0; output < chunks_[chunk].sums.size(); ++output)
      if (chunks_[chunk].sums[output].owner) out.push_back({from, sent_on(chunk, output)});
  }
  if (const auto& own = peers_[options_.rank].done; message.done && own)
    out.push_back({from, *own});
}

}  // namespace gpunode::collective
