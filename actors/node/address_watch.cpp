#include "actors/node/address_watch.hpp"

#include <algorithm>

namespace gpunode::node {

std::optional<std::string> AddressWatch::on_look(const std::vector<std::string>& addresses) {
  const bool stays = addresses.empty() || std::ranges::find(addresses, told_) != addresses.end();
  const std::string best = stays ? std::string() : addresses.front();
  const bool again = best == seen_;
  seen_ = best;
  if (stays || !again) return std::nullopt;
  seen_.clear();
  told_ = best;
  return told_;
}

}  // namespace gpunode::node
