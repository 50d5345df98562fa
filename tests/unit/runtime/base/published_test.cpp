// What many threads read while one replaces it.
#include "runtime/base/published.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

namespace gpunode {
namespace {

TEST(Published, is_a_fresh_value_before_the_first_write) {
  Published<std::vector<int>> published;
  ASSERT_NE(published.read(), nullptr);
  EXPECT_TRUE(published.read()->empty());
}

TEST(Published, what_was_read_stays_as_it_was) {
  Published<std::vector<int>> published;
  published.write({1});
  auto held = published.read();
  published.write({2, 3});
  EXPECT_EQ(*held, std::vector<int>({1}));
  EXPECT_EQ(*published.read(), std::vector<int>({2, 3}));
}

TEST(Published, readers_see_whole_values_that_never_go_back) {
  constexpr std::uint64_t kLast = 2000;
  struct Twice {
    std::uint64_t first = 0, second = 0;
  };
  Published<Twice> published;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      for (std::uint64_t seen = 0; seen < kLast;) {
        auto value = published.read();
        EXPECT_EQ(value->first, value->second);
        EXPECT_GE(value->first, seen);
        seen = value->first;
      }
    });
  for (std::uint64_t i = 1; i <= kLast; ++i) published.write({i, i});
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace gpunode
