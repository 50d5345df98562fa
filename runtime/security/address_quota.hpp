// Which connections of strangers stay where more come than there is room for: so many in all, of one
// address and of one network. One of those that have most gives way, at random: a flood from few
// addresses drives out itself alone, and one from many has to be far larger than the table to drive
// out an honest stranger, who is through in a few round trips. (The oldest would be the honest one.)
// Pure; owned by whoever owns the connections. A decision costs the logarithm of the table's size,
// one that drops somebody a walk over it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "runtime/base/ip_address.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::security {

class AddressQuota {
 public:
  struct Limits {
    std::size_t all = 512;
    std::size_t of_address = 64;
    std::size_t of_network = 128;
  };
  AddressQuota(Limits limits, std::uint64_t seed) : limits_(limits), rng_(seed) {}

  // Takes in a connection by its owner's number, which is nobody else's. The one to be dropped for
  // it, which may be itself; the owner drops it and calls leave.
  std::optional<std::uint64_t> enter(std::uint64_t number, const IpAddress& from);
  // It has gone, or is no stranger any more.
  void leave(std::uint64_t number);

  std::size_t size() const { return from_.size(); }

 private:
  std::uint64_t one_of(const IpAddress& whom, bool network);
  IpAddress largest_network();

  const Limits limits_;
  Rng rng_;
  std::map<std::uint64_t, IpAddress> from_;
  std::map<IpAddress, std::size_t> of_address_, of_network_;
};

}  // namespace gpunode::security
