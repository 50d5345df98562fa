// What peers say to an exchange, and what is asked of those who fell silent.
#include "runtime/collective/detail/exchange_state.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace gpunode::collective {

static_assert(std::endian::native == std::endian::little, "payloads are little-endian floats");

namespace {

constexpr int kMostPatience = 4;  // times need_after between two NEEDs to a silent peer

}  // namespace

// Asks a peer for all that is missing of it.
void ExactExchange::State::ask(Time now, std::uint16_t rank, std::vector<SendTo>& out) {
  Peer& peer = peers[rank];
  Need need;
  need.done = !peer.done;
  for (std::uint32_t chunk = 0; chunk < chunks.size() && lacks_bytes(peer); ++chunk) {
    const Chunk& state = chunks[chunk];
    if (owner_of(chunk) == rank && !state.here) need.result_chunks.push_back(chunk);
    for (std::size_t index = 0; index < state.slots.size(); ++index) {
      if (cover[index].rank != rank || state.slots[index].filled) continue;
      need.partial_chunks.push_back(chunk);
      break;
    }
  }
  if (need.done || !need.result_chunks.empty() || !need.partial_chunks.empty())
    out.push_back({rank, std::move(need)});
  peer.quiet_since = now;
  peer.patience = std::min(peer.patience * 2, options.need_after * kMostPatience);
}

void ExactExchange::State::on(Time now, std::uint16_t from, const PartialChunk& message,
                              std::vector<SendTo>& out) {
  CoverNode* cover_node = find(message.node);
  bool good = message.chunk < chunks.size() && owner_of(message.chunk) == options.rank &&
              message.payload.size() == partial_bytes(message.chunk) && cover_node &&
              cover_node->rank == from && (!cover_node->fed || *cover_node->fed == message.fed);
  if (!good) {
    ++dropped;
    return;
  }
  Chunk& chunk = chunks[message.chunk];
  if (chunk.slots.empty()) return;  // summed already: a duplicate
  std::size_t index = static_cast<std::size_t>(cover_node - cover.data());
  const std::byte* bytes = message.payload.view.data();
  if (const Slot& known = chunk.slots[index]; known.filled) {
    const void* first = known.is_encoded() ? static_cast<const void*>(known.encoded.data())
                                           : static_cast<const void*>(known.values);
    if (message.payload.size() > 0 && std::memcmp(first, bytes, message.payload.size()) != 0)
      ++dropped;
    return;
  }
  if (places && !places->close(message.chunk, {from, message.node}, bytes)) {
    ++dropped;
    return;
  }
  Slot slot{message.payload.owner, reinterpret_cast<const float*>(bytes)};
  if (options.forms) {
    slot.values = nullptr;
    slot.encoded = message.payload.view;
  } else if (reinterpret_cast<std::uintptr_t>(bytes) % alignof(float) != 0) {
    auto copy = std::make_shared<std::vector<float>>(message.payload.size() / sizeof(float));
    std::memcpy(copy->data(), bytes, message.payload.size());
    slot.values = copy->data();
    slot.owner = std::move(copy);
  }
  cover_node->fed = message.fed;
  heard(now, from);
  fill(now, message.chunk, index, std::move(slot), out);
}

void ExactExchange::State::on(Time now, std::uint16_t from, const ResultChunk& message,
                              std::vector<SendTo>& out) {
  if (message.chunk >= chunks.size() || owner_of(message.chunk) != from ||
      message.payload.size() != result_bytes(message.chunk)) {
    ++dropped;
    return;
  }
  ByteView bytes = message.payload.view;
  Chunk& chunk = chunks[message.chunk];
  if (chunk.here) {
    if (message.fed != *total || !repeats_result(message.chunk, bytes)) ++dropped;
    return;
  }
  const bool free = !places || places->close(message.chunk, {from, std::nullopt}, bytes.data());
  if (!free || !adopt(message.fed)) {
    ++dropped;
    return;
  }
  float* place = buffer->data() + options.layout.first(message.chunk);
  if (options.forms) {
    options.forms->result.decode(
        bytes, {place, static_cast<std::size_t>(options.layout.size(message.chunk))});
    chunk_is_here(message.chunk, digest_of(place_of(message.chunk)));
  } else {
    // The message is still in the cache; its place is not, unless it was read there.
    chunk_is_here(message.chunk, digest_of(bytes));
    const bool in_place = bytes.data() == reinterpret_cast<const std::byte*>(place);
    if (!bytes.empty() && !in_place) std::memcpy(place, bytes.data(), bytes.size());
  }
  --peers[from].missing_results;
  heard(now, from);
  hold_when_whole(now, out);
}

void ExactExchange::State::on(Time now, std::uint16_t from, const Done& message) {
  std::optional<Done>& known = peers[from].done;
  if (known) {
    if (*known != message) ++dropped;
    return;
  }
  known = message;
  heard(now, from);
  compare_dones();
}

bool ExactExchange::State::in_order(const std::vector<std::uint32_t>& list,
                                    std::uint16_t owner) const {
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i] >= chunks.size() || owner_of(list[i]) != owner || (i > 0 && list[i] <= list[i - 1]))
      return false;
  return true;
}

void ExactExchange::State::on(std::uint16_t from, const Need& message, std::vector<SendTo>& out) {
  if (!in_order(message.partial_chunks, from) || !in_order(message.result_chunks, options.rank)) {
    ++dropped;
    return;
  }
  // Who said DONE has every result, and whose result is here has every partial: an old question.
  for (std::uint32_t chunk : message.result_chunks)
    if (chunks[chunk].here && !peers[from].done) out.push_back({from, result_of(chunk)});
  for (std::uint32_t chunk : message.partial_chunks)
    for (CoverNode& cover_node : cover)
      if (is_final(cover_node, chunk) && !chunks[chunk].here)
        out.push_back({from, partial_of(cover_node, chunk)});
  if (const auto& own = peers[options.rank].done; message.done && own) out.push_back({from, *own});
}

}  // namespace gpunode::collective
