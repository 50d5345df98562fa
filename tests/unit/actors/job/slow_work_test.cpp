#include "actors/job/slow_work.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpunode::jobs {
namespace {

class SlowWorkTest : public ::testing::Test {
 protected:
  static NodeId node(int number) {
    NodeId id;
    id.value[0] = std::byte(number);
    return id;
  }
  // Asks for work of the node that notes its letter.
  Result<bool> ask(int by, char letter) {
    return work_.add(node(by), [this, letter] { done_ += letter; });
  }

  static constexpr int kSelf = 9;
  std::string done_;
  SlowWork work_{node(kSelf), {.threads = 2, .threads_each = 1, .waiting = 6, .waiting_each = 3}};
};

TEST_F(SlowWorkTest, takes_as_many_threads_as_there_are_and_no_more) {
  EXPECT_TRUE(*ask(1, 'a'));
  EXPECT_TRUE(*ask(2, 'b'));
  EXPECT_FALSE(*ask(3, 'c'));
  work_.serve();
  EXPECT_EQ(done_, "abc");
}

TEST_F(SlowWorkTest, gives_each_asker_its_turn) {
  for (char letter : {'a', 'b', 'c'}) ASSERT_TRUE(ask(1, letter));
  ASSERT_TRUE(ask(2, 'x'));
  ASSERT_TRUE(ask(2, 'y'));
  work_.serve();
  EXPECT_EQ(done_, "axbyc");
}

TEST_F(SlowWorkTest, one_asker_fills_neither_the_room_nor_the_threads) {
  bool other_began = false, refused = false;
  ASSERT_TRUE(*work_.add(node(1), [&] {
    // While it runs, no other work of the same asker begins, and that of others does.
    for (int i = 0; i < 3; ++i) {
      const auto more = ask(1, 'a');
      ASSERT_TRUE(more);
      EXPECT_FALSE(*more);
    }
    const auto over = ask(1, 'a');
    refused = !over && over.error().code == ErrorCode::resource_exhausted;
    const auto other = ask(2, 'b');
    other_began = other && *other;
    if (other_began) work_.serve();
    EXPECT_EQ(done_, "b");
  }));
  work_.serve();
  EXPECT_TRUE(refused);
  EXPECT_TRUE(other_began);
  EXPECT_EQ(done_, "baaa");
}

TEST_F(SlowWorkTest, this_node_itself_may_have_all_of_it) {
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(ask(kSelf, 's')) << i;
  EXPECT_FALSE(ask(kSelf, 's'));
  EXPECT_FALSE(ask(1, 'a')) << "the room is taken";
  work_.serve();
  EXPECT_EQ(done_, "ssssss");
  EXPECT_TRUE(*ask(1, 'a')) << "and free again";
}

TEST_F(SlowWorkTest, a_thread_that_finds_nothing_left_makes_room_for_another) {
  EXPECT_TRUE(*ask(1, 'a'));
  work_.serve();
  EXPECT_TRUE(*ask(1, 'b'));
  EXPECT_TRUE(*ask(2, 'c'));
}

TEST_F(SlowWorkTest, once_closed_takes_nothing_and_lets_go_of_what_waits) {
  auto held = std::make_shared<int>(1);
  ASSERT_TRUE(work_.add(node(1), [held] {}));
  work_.close();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(ask(1, 'a').error().code, ErrorCode::unavailable);
  work_.serve();
  EXPECT_EQ(done_, "");
}

}  // namespace
}  // namespace gpunode::jobs
