#include "runtime/security/address_quota.hpp"

#include <vector>

namespace gpunode::security {
namespace {

void take_off(std::map<IpAddress, std::size_t>& counts, const IpAddress& from) {
  const auto found = counts.find(from);
  if (found != counts.end() && --found->second == 0) counts.erase(found);
}

}  // namespace

std::optional<std::uint64_t> AddressQuota::enter(std::uint64_t number, const IpAddress& from) {
  from_[number] = from;
  const IpAddress network = from.network();
  if (++of_address_[from] > limits_.of_address) {
    ++of_network_[network];
    return one_of(from, false);
  }
  if (++of_network_[network] > limits_.of_network) return one_of(network, true);
  if (from_.size() > limits_.all) return one_of(largest_network(), true);
  return std::nullopt;
}

void AddressQuota::leave(std::uint64_t number) {
  const auto found = from_.find(number);
  if (found == from_.end()) return;
  take_off(of_address_, found->second);
  take_off(of_network_, found->second.network());
  from_.erase(found);
}

std::uint64_t AddressQuota::one_of(const IpAddress& whom, bool network) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, from] : from_)
    if ((network ? from.network() : from) == whom) numbers.push_back(number);
  return numbers[rng_.below(numbers.size())];
}

// Of several, one at random.
IpAddress AddressQuota::largest_network() {
  std::vector<IpAddress> largest;
  std::size_t most = 0;
  for (const auto& [network, count] : of_network_) {
    if (count > most) largest.clear();
    if (count >= most) largest.push_back(network);
    most = std::max(most, count);
  }
  return largest[rng_.below(largest.size())];
}

}  // namespace gpunode::security
