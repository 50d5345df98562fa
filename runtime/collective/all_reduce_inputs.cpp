// What peers say to an exchange, and what is asked of those who fell silent.
#include "runtime/collective/detail/all_reduce_state.hpp"

#include <algorithm>
#include <utility>

namespace gpunode::collective {

namespace {

constexpr int kMostTimeout = 4;  // times need_after between two NEEDs to a silent peer

}  // namespace

// Asks a peer for all that is missing of it.
void AllReduce::State::ask(Time now, std::uint16_t rank, std::vector<SendTo>& out) {
  Peer& peer = peers[rank];
  Need need;
  need.done = !peer.done;
  const bool lacks_chunks = lacks_bytes(rank);
  for (std::uint32_t chunk = 0; chunk < chunks.size() && lacks_chunks; ++chunk) {
    const Chunk& state = chunks[chunk];
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
  peer.timeout = std::min(peer.timeout * 2, options.need_after * kMostTimeout);
}

void AllReduce::State::on(Time now, std::uint16_t from, const PartialChunk& message,
                          std::vector<SendTo>& out) {
  if (message.chunk >= chunks.size() ||
      message.payload.size() != options.form->partial_bytes(options.layout.size(message.chunk))) {
    ++dropped;
    return;
  }
  SumStation& station = station_of(message.chunk);
  const auto found = station.input_of(from, message.node);
  if (!found || (station.inputs[*found].data_fingerprint &&
                 *station.inputs[*found].data_fingerprint != message.data_fingerprint)) {
    ++dropped;
    return;
  }
  const std::uint32_t index = *found;
  Chunk& chunk = chunks[message.chunk];
  if (chunk.slots.empty()) return;  // summed already: a duplicate
  const std::byte* bytes = message.payload.view.data();
  if (const Slot& known = chunk.slots[index]; known.filled) {
    if (!std::ranges::equal(known.bytes.view, message.payload.view)) ++dropped;
    return;
  }
  if (places && !places->close(message.chunk, {from, message.node}, bytes)) {
    ++dropped;
    return;
  }
  station.inputs[index].data_fingerprint = message.data_fingerprint;
  heard(now, from);
  fill(now, message.chunk, index, {message.payload}, out);
}

void AllReduce::State::on(Time now, std::uint16_t from, const ResultChunk& message,
                          std::vector<SendTo>& out) {
  if (message.chunk >= chunks.size() || station_of(message.chunk).next != from ||
      message.payload.size() != options.form->result_bytes(options.layout.size(message.chunk))) {
    ++dropped;
    return;
  }
  ByteView bytes = message.payload.view;
  Chunk& chunk = chunks[message.chunk];
  if (chunk.here) {
    if (message.data_fingerprint != *total ||
        !options.form->repeats_result(bytes, buffer_of(message.chunk)))
      ++dropped;
    return;
  }
  const bool free = !places || places->close(message.chunk, {from, std::nullopt}, bytes.data());
  if (!free || !adopt(message.data_fingerprint)) {
    ++dropped;
    return;
  }
  chunk_is_here(message.chunk, options.form->unpack_result(bytes, buffer_of(message.chunk)));
  --peers[from].missing_results;
  heard(now, from);
  send_result(message.chunk, out);
  hold_when_whole(now, out);
}

void AllReduce::State::on(Time now, std::uint16_t from, const Done& message) {
  std::optional<Done>& known = peers[from].done;
  if (known) {
    if (*known != message) ++dropped;
    return;
  }
  known = message;
  heard(now, from);
  compare_dones();
}

bool AllReduce::State::in_order(const std::vector<std::uint32_t>& list) const {
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i] >= chunks.size() || (i > 0 && list[i] <= list[i - 1])) return false;
  return true;
}

void AllReduce::State::on(std::uint16_t from, const Need& message, std::vector<SendTo>& out) {
  const auto sums_go_there = [&](std::uint32_t chunk) { return station_of(chunk).next == from; };
  const auto result_goes_there = [&](std::uint32_t chunk) {
    return std::ranges::count(station_of(chunk).before, from) > 0;
  };
  if (!in_order(message.partial_chunks) || !in_order(message.result_chunks) ||
      !std::ranges::all_of(message.partial_chunks, sums_go_there) ||
      !std::ranges::all_of(message.result_chunks, result_goes_there)) {
    ++dropped;
    return;
  }
  // Who said DONE has every result, and whose result is here has every partial: an old question.
  for (std::uint32_t chunk : message.result_chunks)
    if (chunks[chunk].here && !peers[from].done) out.push_back({from, result_of(chunk)});
  for (std::uint32_t chunk : message.partial_chunks) {
    if (chunks[chunk].here) continue;
    for (CoverNode& cover_node : cover)
      if (station_of(chunk).passes() && is_final(cover_node, chunk))
        out.push_back({from, partial_of(cover_node, chunk)});
    for (std::size_t output = 0; output < chunks[chunk].sums.size(); ++output)
      if (chunks[chunk].sums[output].owner) out.push_back({from, sent_on(chunk, output)});
  }
  if (const auto& own = peers[options.rank].done; message.done && own) out.push_back({from, *own});
}

}  // namespace gpunode::collective
