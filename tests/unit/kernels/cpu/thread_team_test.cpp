// A team does each part of its work once, whoever asks and however many ask.
#include "kernels/cpu/detail/thread_team.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <csignal>
#include <set>
#include <thread>
#include <vector>

namespace gpunode::cpu {
namespace {

TEST(ThreadTeam, DoesEachPartOnce) {
  ThreadTeam team(4);
  for (const int parts : {0, 1, 2, 3, 7, 64, 1000}) {
    std::vector<int> times(static_cast<std::size_t>(parts));
    team.run(parts, [&](int part) { ++times[static_cast<std::size_t>(part)]; });
    EXPECT_EQ(times, std::vector<int>(static_cast<std::size_t>(parts), 1));
  }
}

TEST(ThreadTeam, DoesOneWorkAfterAnother) {
  ThreadTeam team(3);
  for (int work = 0; work < 20000; ++work) {
    int parts[5] = {};
    team.run(5, [&](int part) { parts[part] = work + part; });
    for (int part = 0; part < 5; ++part) ASSERT_EQ(parts[part], work + part);
  }
}

TEST(ThreadTeam, TakesSeveralThreads) {
  ThreadTeam team(3);
  std::barrier meeting(3);  // no thread can do two of the parts
  team.run(3, [&](int) { meeting.arrive_and_wait(); });
}

TEST(ThreadTeam, WakesHelpersThatSleep) {
  ThreadTeam team(2);
  for (int round = 0; round < 3; ++round) {
    std::barrier meeting(2);
    team.run(2, [&](int) { meeting.arrive_and_wait(); });
    // Until a helper has spun for long enough: it is then asleep or about to be, both of which count.
    for (int pause = 0; pause < 200000; ++pause)
      std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

TEST(ThreadTeam, WorkThatFindsItBusyIsItsCallersOwn) {
  ThreadTeam team(4);
  constexpr int kCallers = 3, kWorks = 2000;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller)
    callers.emplace_back([&team] {
      for (int work = 0; work < kWorks; ++work) {
        int parts[6] = {};
        team.run(6, [&](int part) { ++parts[part]; });
        for (const int times : parts) ASSERT_EQ(times, 1);
      }
    });
  for (std::thread& caller : callers) caller.join();
}

TEST(ThreadTeam, APartMayHaveWorkOfItsOwn) {
  ThreadTeam team(2);
  std::atomic<int> inner = 0;
  team.run(4, [&](int) { team.run(3, [&](int) { ++inner; }); });
  EXPECT_EQ(inner, 12);
}

TEST(ThreadTeam, OfOneRunsOnItsCaller) {
  ThreadTeam team(1);
  std::set<std::thread::id> threads;
  team.run(8, [&](int) { threads.insert(std::this_thread::get_id()); });
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

TEST(ThreadTeam, HelpersGetNoSignals) {
  ThreadTeam team(2);
  std::barrier meeting(2);
  const auto caller = std::this_thread::get_id();
  team.run(2, [&](int) {
    meeting.arrive_and_wait();
    if (std::this_thread::get_id() == caller) return;
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    EXPECT_TRUE(sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGINT));
  });
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_FALSE(sigismember(&own, SIGTERM));
}

TEST(ThreadTeam, HasAsManyThreadsAsThereAreCoresWhereNoneIsNamed) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_EQ(ThreadTeam(0).threads(), std::min(usable_cores(), ThreadTeam::kMostThreads));
  EXPECT_EQ(ThreadTeam(1000).threads(), ThreadTeam::kMostThreads);
}

TEST(ThreadTeam, MayCloseBeforeItsFirstWork) {
  ThreadTeam team(4);
}

}  // namespace
}  // namespace gpunode::cpu
