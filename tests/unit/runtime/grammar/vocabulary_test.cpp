#include "runtime/grammar/vocabulary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpunode::grammar {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Vocabulary, shares_the_way_to_tokens_that_begin_alike) {
  const std::vector<std::string> texts{"ab", "", "a", "abc", "b", "ab", "\xff"};
  const Vocabulary vocabulary(texts);
  const auto nodes = vocabulary.nodes();
  ASSERT_EQ(nodes.size(), 6u) << "the root, a, ab, abc, b, ff";
  EXPECT_EQ(vocabulary.size(), 7u);
  EXPECT_EQ(vocabulary.longest(), 3u);
  EXPECT_THAT(vocabulary.tokens_of(nodes[0]), IsEmpty());
  EXPECT_THAT(vocabulary.tokens_of(nodes[1]), ElementsAre(2u));
  EXPECT_THAT(vocabulary.tokens_of(nodes[2]), ElementsAre(0u, 5u));
  EXPECT_THAT(vocabulary.tokens_of(nodes[3]), ElementsAre(3u));
  EXPECT_EQ(nodes[1].behind, 4u);
  EXPECT_EQ(nodes[3].behind, 4u);
  EXPECT_EQ(nodes[0].behind, 6u);
  EXPECT_EQ(nodes[5].byte, 0xff);
  EXPECT_EQ(nodes[3].depth, 3u);
  EXPECT_EQ(nodes[1].longest, 3u);
  EXPECT_EQ(nodes[4].longest, 1u);
}

TEST(Vocabulary, knows_which_tokens_are_long) {
  const std::vector<std::string> texts{"ab", "", "a", "abc"};
  const Vocabulary vocabulary(texts);
  EXPECT_THAT(vocabulary.longer_than(1), ElementsAre(3u, 0u));
  EXPECT_THAT(vocabulary.longer_than(3), IsEmpty());
  EXPECT_EQ(Vocabulary(std::vector<std::string>{}).nodes().size(), 1u);
}

}  // namespace
}  // namespace gpunode::grammar
