// Groups of two and three ranks, each with its carrier's process, over libraries of the test's own.
#include "kernels/cuda/nccl_group.hpp"

#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/kernels/cuda/fake_group.hpp"

namespace gpunode::cuda {
namespace {

using ops::DeviceGroup;
using ops::MovedSpan;
using Groups = std::vector<std::unique_ptr<DeviceGroup>>;
constexpr std::chrono::milliseconds kLong = std::chrono::seconds(60);

// Each rank in a thread of its own.
void at_each(std::size_t ranks, const std::function<void(std::uint16_t)>& act) {
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back(act, static_cast<std::uint16_t>(rank));
  for (std::thread& thread : threads) thread.join();
}

// What every rank sends and receives in one move, and how many bytes a region has.
struct Course {
  struct Rank {
    std::vector<MovedSpan> sends, receives;
    std::size_t bytes = 0;
  };
  std::vector<Rank> ranks;
};

std::size_t place_for(Course::Rank& rank, std::size_t bytes) {
  const std::size_t offset = rank.bytes;
  rank.bytes += (bytes + 15) / 16 * 16;
  return offset;
}

// Up to three spans a pair of ranks, each to itself as well.
Course some_course(std::size_t ranks, std::mt19937& random) {
  Course course{std::vector<Course::Rank>(ranks)};
  for (std::size_t from = 0; from < ranks; ++from)
    for (std::size_t to = 0; to < ranks; ++to)
      for (unsigned count = random() % 4; count > 0; --count) {
        const std::size_t bytes = count == 3 ? 0 : random() % 100'000;
        course.ranks[from].sends.push_back(
            {static_cast<std::uint16_t>(to), place_for(course.ranks[from], bytes), bytes});
        course.ranks[to].receives.push_back(
            {static_cast<std::uint16_t>(from), place_for(course.ranks[to], bytes), bytes});
      }
  return course;
}

// Where each byte of a rank's receives comes from, by the contract: the n-th meets the n-th.
void expect_moved(const Course& course, const std::vector<Bytes>& before,
                  const std::vector<Bytes>& after) {
  for (std::size_t to = 0; to < course.ranks.size(); ++to) {
    Bytes expected = before[to];
    std::map<std::uint16_t, std::size_t> met;
    for (const MovedSpan& receive : course.ranks[to].receives) {
      std::size_t nth = met[receive.peer]++;
      for (const MovedSpan& send : course.ranks[receive.peer].sends)
        if (send.peer == to && nth-- == 0) {
          ASSERT_EQ(send.bytes, receive.bytes);
          std::copy_n(before[receive.peer].begin() + static_cast<std::ptrdiff_t>(send.offset),
                      send.bytes, expected.begin() + static_cast<std::ptrdiff_t>(receive.offset));
        }
    }
    EXPECT_TRUE(after[to] == expected) << "rank " << to;
  }
}

void run(Groups& groups, const Course& course, std::mt19937& random) {
  std::vector<Bytes> before(groups.size()), after(groups.size());
  for (std::size_t rank = 0; rank < groups.size(); ++rank) {
    before[rank].resize(course.ranks[rank].bytes);
    for (std::byte& one : before[rank]) one = static_cast<std::byte>(random());
  }
  at_each(groups.size(), [&](std::uint16_t rank) {
    auto region = groups[rank]->region(before[rank].size());
    ASSERT_TRUE(region) << region.error().message();
    std::copy(before[rank].begin(), before[rank].end(), *region);
    const auto done =
        groups[rank]->move(course.ranks[rank].sends, course.ranks[rank].receives, kLong);
    ASSERT_TRUE(done) << done.error().message();
    after[rank].assign(*region, *region + before[rank].size());
  });
  expect_moved(course, before, after);
}

class NcclGroup : public NcclGroupTest {
 protected:
  Groups joined(std::size_t ranks) {
    Groups groups;
    for (std::size_t rank = 0; rank < ranks; ++rank) groups.push_back(open());
    const auto invite = groups[0]->invite();
    EXPECT_TRUE(invite) << invite.error().message();
    at_each(ranks, [&](std::uint16_t rank) {
      const auto done = groups[rank]->join(*invite, rank, static_cast<std::uint16_t>(ranks), kLong);
      EXPECT_TRUE(done) << done.error().message();
    });
    return groups;
  }
};

TEST_F(NcclGroup, spans_of_every_size_arrive_where_they_belong) {
  std::mt19937 random(7);
  for (const std::size_t ranks : {1u, 2u, 3u}) {
    Groups groups = joined(ranks);
    EXPECT_EQ(children().size(), ranks);
    for (int move = 0; move < 6; ++move) run(groups, some_course(ranks, random), random);
    run(groups, Course{std::vector<Course::Rank>(ranks)}, random);
  }
}

TEST_F(NcclGroup, a_region_grows_and_does_not_move_without_need) {
  Groups groups = joined(1);
  const auto small = groups[0]->region(100), again = groups[0]->region(50);
  ASSERT_TRUE(small && again);
  EXPECT_EQ(*small, *again);
  const auto large = groups[0]->region(5'000'000);
  ASSERT_TRUE(large);
  EXPECT_EQ(memory->held(), 1u);
  const MovedSpan last{0, 4'999'984, 16}, first{0, 0, 16};
  std::fill_n(*large + last.offset, 16, std::byte{42});
  ASSERT_TRUE(groups[0]->move(std::span(&last, 1), std::span(&first, 1), kLong));
  EXPECT_EQ((*large)[15], std::byte{42});
  memory->most = 6'000'000;
  EXPECT_EQ(groups[0]->region(7'000'000).error().code, ErrorCode::out_of_memory);
  EXPECT_TRUE(groups[0]->region(1'000));  // what was given is void, the group is not broken
}

TEST_F(NcclGroup, a_span_that_is_none_breaks_the_group_and_says_which) {
  for (const MovedSpan& wrong : {MovedSpan{1, 0, 16}, MovedSpan{0, 8, 16}, MovedSpan{0, 112, 17},
                                 MovedSpan{0, 128, 1}, MovedSpan{0, ~std::size_t{15}, 32}}) {
    Groups groups = joined(1);
    ASSERT_TRUE(groups[0]->region(128));
    const auto done = groups[0]->move(std::span(&wrong, 1), {}, kLong);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::unavailable);
    EXPECT_THAT(done.error().detail, ::testing::HasSubstr("no span of 128 bytes")) << wrong.offset;
  }
}

TEST_F(NcclGroup, an_invite_that_is_none_is_an_error) {
  std::mt19937 random(3);
  for (const std::size_t size : {0u, 1u, 127u, 132u, 1024u, 1025u}) {
    Bytes invite(size);
    for (std::byte& one : invite) one = static_cast<std::byte>(random());
    const auto done = open()->join(invite, 1, 2, kLong);
    ASSERT_FALSE(done) << size;
    EXPECT_EQ(done.error().code, ErrorCode::unavailable);
  }
}

TEST_F(NcclGroup, a_group_is_joined_once_and_moves_only_then) {
  auto group = open();
  EXPECT_THAT(group->move({}, {}, kLong).error().detail, ::testing::HasSubstr("before the group"));
  EXPECT_FALSE(group->invite());  // broken by that
  Groups groups = joined(1);
  EXPECT_THAT(groups[0]->join({}, 0, 1, kLong).error().detail,
              ::testing::HasSubstr("joined already"));
}

TEST_F(NcclGroup, lives_on_where_the_thread_that_opened_it_ends) {
  std::unique_ptr<DeviceGroup> group;
  std::thread([&] { group = open(); }).join();
  const auto invite = group->invite();
  ASSERT_TRUE(invite) << invite.error().message();
  ASSERT_TRUE(group->join(*invite, 0, 1, kLong));
  EXPECT_TRUE(group->move({}, {}, kLong));
}

}  // namespace
}  // namespace gpunode::cuda
