#include "runtime/dataset/shuffle.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace gpunode::dataset {
namespace {

TEST(Shuffle, is_a_bijection_for_every_count) {
  std::vector<std::uint64_t> counts{1,   2,   3,    4,    5,    7,    8,    9,     13,    16,
                                    17,  31,  97,   100,  127,  128,  129,  255,   256,   257,
                                    997, 999, 1000, 1024, 1025, 4093, 7919, 65521, 65536, 65537};
  for (std::uint64_t count : counts) {
    for (std::uint64_t seed : {0ull, 1ull, ~0ull}) {
      Shuffle shuffle(seed, seed % 3, count);
      std::vector<bool> hit(count);
      for (std::uint64_t place = 0; place < count; ++place) {
        std::uint64_t sample = shuffle.at(place);
        ASSERT_LT(sample, count);
        ASSERT_FALSE(hit[sample]) << "count " << count << " place " << place;
        hit[sample] = true;
      }
    }
  }
}

TEST(Shuffle, works_for_counts_near_the_largest) {
  for (std::uint64_t count : {~0ull, (1ull << 63) + 1, 1ull << 63, (1ull << 33) + 7}) {
    Shuffle shuffle(5, 0, count);
    for (std::uint64_t place : {std::uint64_t{0}, count / 2, count - 1})
      EXPECT_LT(shuffle.at(place), count);
  }
}

// Golden: another order would be another training run under the same seed.
TEST(Shuffle, order_is_fixed_for_good) {
  Shuffle shuffle(1, 0, 10);
  std::vector<std::uint64_t> order;
  for (std::uint64_t place = 0; place < 10; ++place) order.push_back(shuffle.at(place));
  EXPECT_EQ(order, (std::vector<std::uint64_t>{3, 4, 2, 5, 7, 8, 1, 9, 6, 0}));
  EXPECT_EQ(Shuffle(42, 7, 1'003'790).at(123'456), 803856u);
}

TEST(Shuffle, differs_by_seed_and_by_epoch) {
  Shuffle a(1, 0, 10'000), b(2, 0, 10'000), c(1, 1, 10'000);
  int same_b = 0, same_c = 0;
  for (std::uint64_t place = 0; place < 10'000; ++place) {
    same_b += a.at(place) == b.at(place);
    same_c += a.at(place) == c.at(place);
  }
  EXPECT_LT(same_b, 12);
  EXPECT_LT(same_c, 12);
}

// Chi-square over a grid of (place, sample) cells: about 225 expected, standard deviation 21.
TEST(Shuffle, spreads_neighbouring_places_over_all_samples) {
  constexpr std::uint64_t kCount = 160'000;
  constexpr int kCells = 16;
  double counts[kCells][kCells] = {};
  Shuffle shuffle(3, 4, kCount);
  for (std::uint64_t place = 0; place < kCount; ++place)
    counts[place * kCells / kCount][shuffle.at(place) * kCells / kCount] += 1;
  double expected = double{kCount} / (kCells * kCells), chi = 0;
  for (auto& row : counts)
    for (double count : row) chi += (count - expected) * (count - expected) / expected;
  EXPECT_GT(chi, 130);
  EXPECT_LT(chi, 330);
}

TEST(Shuffle, correlation_of_neighbours_is_small) {
  constexpr std::uint64_t kCount = 100'003;
  Shuffle shuffle(9, 0, kCount);
  double mean = (kCount - 1) / 2.0, sum = 0, variance = (double{kCount} * kCount - 1) / 12.0;
  for (std::uint64_t place = 0; place + 1 < kCount; ++place)
    sum += (static_cast<double>(shuffle.at(place)) - mean) *
           (static_cast<double>(shuffle.at(place + 1)) - mean);
  EXPECT_LT(std::abs(sum / variance / kCount), 0.015);
}

}  // namespace
}  // namespace gpunode::dataset
