// The order of samples: a bijection of [0, N) chosen by (seed, data_epoch), computed place by
// place, so that no list of indices exists and any node can tell which sample stands at which
// position. Construction: an alternating Feistel network of kRounds rounds over bit_width(N-1)
// bits, walked along its cycle until the value is below N (fewer than 2 applications on average).
// Cost: 20 to 50 ns a place. Stateless after construction; any thread.
// Source: Black, Rogaway: Ciphers with Arbitrary Finite Domains (2002), for cycle walking.
#pragma once

#include <array>
#include <cstdint>

namespace gpunode::dataset {

class Shuffle {
 public:
  static constexpr int kRounds = 8;

  // count > 0.
  Shuffle(std::uint64_t seed, std::uint64_t data_epoch, std::uint64_t count);

  // The sample at a place of the epoch; place < count.
  std::uint64_t at(std::uint64_t place) const;

 private:
  std::uint64_t permute(std::uint64_t value) const;

  std::uint64_t count_;
  int left_bits_, right_bits_;
  std::array<std::uint64_t, kRounds> keys_;
};

}  // namespace gpunode::dataset
