// The steps that the members' devices sum (mode nccl): what members say before, which way a step
// goes, and the result that comes back. No chunk travels then.
#include <utility>

#include "runtime/collective/detail/exchange_state.hpp"

namespace gpunode::collective {

void ExactExchange::State::begin_island() {
  if (!options.island) return;
  way = Way::undecided;
  offers.resize(options.member_count);
  offers[options.rank] = *options.island;
}

// Again to one peer, what it may have missed.
void ExactExchange::State::tell_island(std::uint16_t peer, std::vector<SendTo>& out) const {
  if (offers.empty()) return;
  out.push_back({peer, *offers[options.rank]});
  if (peers[options.rank].ready) out.push_back({peer, *peers[options.rank].ready});
}

// Any member's word that it is absent settles the way; all others must have spoken.
void ExactExchange::State::decide(Time now, std::vector<SendTo>& out) {
  if (way != Way::undecided) return;
  const IslandVerdict verdict = judge(offers, options.island_unsealed);
  if (verdict.kind == IslandVerdict::Kind::unknown) return;
  if (verdict.kind != IslandVerdict::Kind::island) return take_links(now, out);
  way = Way::island;
  tell_ready(now, out);
}

// Also for a chunk of a peer: it has heard what sent it this way, which is still to come here.
void ExactExchange::State::take_links(Time now, std::vector<SendTo>& out) {
  if (way != Way::undecided) return;
  way = Way::links;
  for (CoverNode& cover_node : cover) {
    if (!cover_node.own) continue;
    std::vector<std::uint32_t> ready;
    for (std::uint32_t chunk = 0; chunk < chunks.size(); ++chunk)
      if (is_final(cover_node, chunk)) ready.push_back(chunk);
    send_final(now, cover_node, std::move(ready), out);
  }
}

// Once all of this member's partial sums are final.
void ExactExchange::State::tell_ready(Time now, std::vector<SendTo>& out) {
  std::optional<IslandReady>& own = peers[options.rank].ready;
  if (own) return;
  Fed fed;
  for (const CoverNode& cover_node : cover) {
    for (std::uint32_t chunk = 0; chunk < chunks.size(); ++chunk)
      if (!is_final(cover_node, chunk)) return;
    fed += *cover_node.fed;
  }
  own = IslandReady{fed};
  for (std::uint16_t rank = 0; rank < options.member_count; ++rank) heard(now, rank);
  send_to_others(*own, out);
}

bool ExactExchange::State::all_ready() const {
  for (const Peer& peer : peers)
    if (!peer.ready) return false;
  return true;
}

void ExactExchange::State::on(Time now, std::uint16_t from, const IslandOffer& message,
                              std::vector<SendTo>& out) {
  if (offers.empty() || (offers[from] && *offers[from] != message)) {
    ++dropped;
    return;
  }
  if (offers[from]) return;
  offers[from] = message;
  heard(now, from);
  decide(now, out);
}

void ExactExchange::State::on(Time now, std::uint16_t from, const IslandReady& message) {
  Peer& peer = peers[from];
  if (offers.empty() || (peer.ready && *peer.ready != message)) {
    ++dropped;
    return;
  }
  if (peer.ready) return;
  peer.ready = message;
  peer.partials_here = now;
  heard(now, from);
}

void ExactExchange::tell_offer(std::vector<SendTo>& out) {
  State& state = *state_;
  if (state.offers.empty()) return;
  state.send_to_others(*state.offers[state.options.rank], out);
  if (state.options.island->stage == IslandStage::absent) state.way = Way::links;
}

Way ExactExchange::way() const {
  return state_->way;
}

IslandVerdict ExactExchange::island_verdict() const {
  if (state_->offers.empty()) return {};
  return judge(state_->offers, state_->options.island_unsealed);
}

const std::vector<std::optional<IslandOffer>>& ExactExchange::island_offers() const {
  return state_->offers;
}

std::optional<IslandSum> ExactExchange::take_island_sum() {
  State& state = *state_;
  if (state.way != Way::island || state.island_sum_taken || !state.all_ready()) return {};
  state.island_sum_taken = true;
  IslandSum sum;
  for (const State::CoverNode& cover_node : state.cover) sum.parts.push_back(cover_node.own);
  sum.result = state.buffer;
  return sum;
}

void ExactExchange::on_island_sum(Time now, std::vector<SendTo>& out) {
  State& state = *state_;
  GPUNODE_CHECK(state.island_sum_taken, "a sum that was not asked for");
  if (held()) return;
  Fed fed;
  for (const State::Peer& peer : state.peers) fed += peer.ready->fed;
  if (!state.adopt(fed)) return;
  for (std::uint32_t chunk = 0; chunk < state.chunks.size(); ++chunk)
    state.chunk_is_here(chunk, digest_of(state.place_of(chunk)));
  state.arrived = {{0, state.options.layout.element_count}};  // at once
  state.hold_when_whole(now, out);
}

}  // namespace gpunode::collective
