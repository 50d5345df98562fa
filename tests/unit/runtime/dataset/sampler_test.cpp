#include "runtime/dataset/sampler.hpp"

#include <gtest/gtest.h>

#include <map>

namespace gpunode::dataset {
namespace {

TEST(Sampler, slices_of_a_step_are_its_positions_in_order_without_gap) {
  for (std::uint32_t batch : {1u, 2u, 5u, 12u, 13u, 64u}) {
    for (std::uint32_t slices : {1u, 2u, 3u, 4u, 7u, 16u}) {
      Sampler sampler({1, 1000, batch, slices});
      for (std::uint64_t step : {0ull, 1ull, 99ull}) {
        std::uint64_t next = step * batch;
        for (std::uint32_t slice = 0; slice < slices; ++slice) {
          PositionRange range = sampler.positions(step, slice);
          EXPECT_EQ(range.begin, next);
          EXPECT_LE(range.end - range.begin, batch / slices + 1);
          EXPECT_GE(range.end - range.begin, batch / slices);
          next = range.end;
        }
        EXPECT_EQ(next, (step + 1) * batch);
      }
    }
  }
}

TEST(Sampler, uses_each_sample_exactly_once_an_epoch_whatever_batch_and_slices) {
  for (std::uint64_t count : {1ull, 2ull, 3ull, 10ull, 97ull, 100ull}) {
    for (std::uint32_t batch : {1u, 3u, 7u, 10u, 64u}) {
      for (std::uint32_t slices : {1u, 3u, 4u, 11u}) {
        Sampler sampler({7, count, batch, slices});
        std::map<std::uint64_t, std::map<std::uint64_t, int>> uses;
        std::uint64_t steps = 3 * count / batch + 1;
        for (std::uint64_t step = 0; step < steps; ++step)
          for (std::uint32_t slice = 0; slice < slices; ++slice)
            for (const SamplePlace& place : sampler.samples(step, slice))
              ++uses[place.data_epoch][place.sample];
        std::uint64_t whole = steps * batch / count;
        ASSERT_GE(whole, 3u);
        for (std::uint64_t epoch = 0; epoch < whole; ++epoch) {
          EXPECT_EQ(uses[epoch].size(), count);
          for (const auto& [sample, times] : uses[epoch]) EXPECT_EQ(times, 1) << sample;
        }
      }
    }
  }
}

TEST(Sampler, samples_are_those_of_their_positions) {
  Sampler sampler({7, 10, 6, 4});
  for (std::uint64_t step = 0; step < 10; ++step) {
    for (std::uint32_t slice = 0; slice < 4; ++slice) {
      PositionRange range = sampler.positions(step, slice);
      std::vector<SamplePlace> places = sampler.samples(step, slice);
      ASSERT_EQ(places.size(), range.end - range.begin);
      for (std::size_t i = 0; i < places.size(); ++i)
        EXPECT_EQ(places[i], sampler.place_of(range.begin + i));
    }
  }
}

}  // namespace
}  // namespace gpunode::dataset
