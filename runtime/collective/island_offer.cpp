#include "runtime/collective/island_offer.hpp"

namespace gpunode::collective {

using Kind = IslandVerdict::Kind;

bool on_one_host(std::span<const std::optional<IslandOffer>> offers) {
  for (const auto& offer : offers)
    if (!offer || offer->host != offers.front()->host) return false;
  return true;
}

std::uint16_t place_on_host(std::span<const std::optional<IslandOffer>> offers,
                            std::uint16_t rank) {
  std::uint16_t place = 0;
  for (std::uint16_t lower = 0; lower < rank && rank < offers.size(); ++lower)
    if (offers[lower] && offers[rank] && offers[lower]->host == offers[rank]->host) ++place;
  return place;
}

IslandVerdict judge(std::span<const std::optional<IslandOffer>> offers, bool unsealed) {
  const auto count = static_cast<std::uint16_t>(offers.size());
  for (std::uint16_t rank = 0; rank < count; ++rank)
    if (offers[rank] && offers[rank]->stage == IslandStage::absent)
      return {Kind::links, rank, offers[rank]->reason};
  for (const auto& offer : offers)
    if (!offer) return {};
  if (!unsealed && !on_one_host(offers))
    for (std::uint16_t rank = 1; rank < count; ++rank)
      if (offers[rank]->host != offers[0]->host)
        return {Kind::links, rank,
                "it is on another machine, and NCCL does not seal what it sends between machines: "
                "exchange.bulk = \"plain\" would allow that"};
  for (std::uint16_t rank = 0; rank < count; ++rank)
    if (offers[rank]->stage == IslandStage::opening)
      return {Kind::not_yet, rank, "its GPU is being opened"};
  if (offers[0]->name.empty()) return {Kind::make_name, 0, {}};
  for (std::uint16_t rank = 0; rank < count; ++rank) {
    if (offers[rank]->stage != IslandStage::joined) return {Kind::join, rank, {}};
    if (offers[rank]->name != offers[0]->name)
      return {Kind::links, rank, "it has joined another meeting of devices"};
  }
  return {Kind::island, 0, {}};
}

}  // namespace gpunode::collective
