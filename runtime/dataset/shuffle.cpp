#include "runtime/dataset/shuffle.hpp"

#include <bit>
#include <string>

#include "runtime/base/check.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::dataset {

Shuffle::Shuffle(std::uint64_t seed, std::uint64_t data_epoch, std::uint64_t count)
    : count_(count) {
  GPUNODE_CHECK(count > 0, "a shuffle of nothing");
  int bits = std::bit_width(count - 1);
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  std::uint64_t key = mix(seed, data_epoch);
  for (int round = 0; round < kRounds; ++round) keys_[round] = mix(key, round);
}

// Each round changes one half by a function of the other, which makes it invertible whatever the
// function; the halves take turns and need not be of one size.
std::uint64_t Shuffle::permute(std::uint64_t value) const {
  std::uint64_t right_mask = (std::uint64_t{1} << right_bits_) - 1;
  std::uint64_t left_mask = (std::uint64_t{1} << left_bits_) - 1;
  std::uint64_t left = value >> right_bits_;
  std::uint64_t right = value & right_mask;
  for (int round = 0; round < kRounds; round += 2) {
    right ^= (mix64(keys_[round] ^ left) >> 32) & right_mask;
    left ^= (mix64(keys_[round + 1] ^ right) >> 32) & left_mask;
  }
  return left << right_bits_ | right;
}

std::uint64_t Shuffle::at(std::uint64_t place) const {
  GPUNODE_CHECK(place < count_, "place " + std::to_string(place) + " of " + std::to_string(count_));
  std::uint64_t value = permute(place);
  while (value >= count_) value = permute(value);
  return value;
}

}  // namespace gpunode::dataset
