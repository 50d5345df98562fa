// The boundary around a process that may hang: programs that are no rank process stand in its
// place.
#include "runtime/island/island.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "tests/support/temporary_folder.hpp"

namespace gpunode::island {
namespace {

using namespace std::chrono_literals;
using collective::IslandNews;

class Teller {
 public:
  Island make(std::vector<std::string> command, Patience patience = {}) {
    return Island({.program = {.command = std::move(command)},
                   .patience = patience,
                   .element_count = 16,
                   .add = [](float* out, std::span<const float* const> inputs,
                             std::size_t count) { std::memcpy(out, inputs[0], count * 4); },
                   .tell =
                       [this](IslandNews news) {
                         std::lock_guard lock(mutex_);
                         told_.push_back(std::move(news));
                         came_.notify_one();
                       }});
  }
  IslandNews next() {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, 30s, [this] { return !told_.empty(); })) return {};
    IslandNews news = std::move(told_.front());
    told_.pop_front();
    return news;
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<IslandNews> told_;
};

void expect_lost(const IslandNews& news, std::uint64_t formation, const std::string& words) {
  EXPECT_EQ(news.kind, IslandNews::Kind::lost);
  EXPECT_EQ(news.formation, formation);
  EXPECT_NE(news.reason.find(words), std::string::npos) << news.reason;
}

TEST(Island, a_process_that_never_answers_is_killed_after_its_time) {
  Teller teller;
  Island island = teller.make({"/bin/sleep", "1000"}, {.open = 50ms});
  island.start(7);
  expect_lost(teller.next(), 7, "hung: it took longer than 0.05 s");
}

TEST(Island, a_sum_over_a_slow_network_gets_the_time_that_it_needs) {
  const std::uint64_t bytes = 500'000'000;  // 60 s among four on 100 Mbit/s
  EXPECT_GT(sum_time({}, bytes, false), 100s);
  EXPECT_EQ(sum_time({}, bytes, true), 10s);
  EXPECT_LT(sum_time({}, 1'000'000, false), 6s) << "one that hangs is found soon";
}

TEST(Island, a_process_that_ends_is_told_with_how_it_ended) {
  Teller teller;
  Island island = teller.make({"/bin/false"});
  island.start(1);
  expect_lost(teller.next(), 1, "exit code 1");
  island.start(2);
  expect_lost(teller.next(), 2, "exit code 1");
}

TEST(Island, a_program_that_is_not_there_is_named) {
  Teller teller;
  Island island = teller.make({"/no/such/program"});
  island.start(1);
  expect_lost(teller.next(), 1, "/no/such/program");
}

TEST(Island, a_program_without_a_rank_process_says_so) {
  Teller teller;
  Island island = teller.make({});
  island.start(1);
  expect_lost(teller.next(), 1, "cannot start");
}

TEST(Island, a_new_view_or_the_end_does_not_wait_for_one_that_hangs) {
  Teller teller;
  {
    Island island = teller.make({"/bin/sleep", "1000"}, {.open = 1h});
    island.start(1);
    island.end();
    island.start(2);
    island.sum(1, {{}, std::make_shared<std::vector<float>>(16)});
  }
  SUCCEED() << "the destructor came back";
}

// Whether this program waits for the end of a process.
bool awaits_an_end() {
  std::error_code gone;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd"))
    if (std::filesystem::read_symlink(one.path(), gone).string().find("pidfd") != std::string::npos)
      return true;
  return false;
}

// A process that has closed its socket and lives on holds the island's thread for a moment.
TEST(Island, its_end_does_not_wait_for_a_process_that_holds_it_and_leaves_none_behind) {
  testing::TemporaryFolder folder;
  const std::string pipe = (folder.path() / "pid").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  pid_t pid = 0;
  std::atomic<bool> is_over{false};
  {
    Island island({.program = {.command = {"/bin/sh", "-c",
                                           "exec 3>&-; echo $$ > " + pipe + "; exec sleep 1000"}},
                   .element_count = 16,
                   .add = {},
                   .tell = [&](const IslandNews&) { EXPECT_FALSE(is_over); }});
    island.start(1);
    std::ifstream(pipe) >> pid;
    ASSERT_GT(pid, 0);
    for (int turn = 0; !awaits_an_end() && turn < 1000; ++turn) poll(nullptr, 0, 10);
    ASSERT_TRUE(awaits_an_end());
  }
  is_over = true;
  EXPECT_EQ(kill(pid, 0), 0) << "it was waited for";
  while (kill(pid, 0) == 0) poll(nullptr, 0, 10);  // until it is reaped
}

TEST(Island, this_machine_has_one_name) {
  EXPECT_EQ(host_digest(), host_digest());
  EXPECT_NE(host_digest(), Digest{});
}

}  // namespace
}  // namespace gpunode::island
