#include "actors/inline_delivery.hpp"

#include <gtest/gtest.h>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "actors/messages.hpp"

namespace gpunode {
namespace {

class InlineDeliveryTest : public ::testing::Test {
 protected:
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  InlineDelivery inline_{system_};
};

TEST_F(InlineDeliveryTest, RunsAnIdleActorOnTheCallersThread) {
  std::atomic<std::thread::id> ran;  // one that is not idle yet runs the message on the pool
  auto actor = system_.spawn([&ran](caf::event_based_actor*) -> caf::behavior {
    return {[&ran](const Tick&) { ran = std::this_thread::get_id(); }};
  });
  caf::scoped_actor self(system_);
  self->request(actor, caf::infinite, Tick{}).receive([] {}, [](const caf::error&) {});
  for (int i = 0; i < 1000 && ran.load() != std::this_thread::get_id(); ++i) {
    inline_.deliver(actor, Tick{});
    std::this_thread::yield();
  }
  EXPECT_EQ(ran.load(), std::this_thread::get_id());
}

TEST_F(InlineDeliveryTest, QueuesForAnActorThatIsBusyAndKeepsTheOrder) {
  std::vector<Boot> order;
  std::latch started(1), released(1), done(1);
  auto actor = system_.spawn([&](caf::event_based_actor*) -> caf::behavior {
    return {[&](const PeerChanged& peer) {
      if (peer.boot == 0) {
        started.count_down();
        released.wait();
      }
      order.push_back(peer.boot);
      if (peer.boot == 20) done.count_down();
    }};
  });
  caf::anon_send(actor, PeerChanged{});
  started.wait();
  for (Boot boot = 1; boot <= 20; ++boot)
    inline_.deliver(actor, PeerChanged{.peer = {}, .boot = boot, .health = {}, .reason = {}});
  released.count_down();
  done.wait();
  ASSERT_EQ(order.size(), 21u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(InlineDeliveryTest, RunsOthersThatTheActorTellsOnThePool) {
  std::latch done(1);
  std::thread::id other;
  auto next = system_.spawn([&](caf::event_based_actor*) -> caf::behavior {
    return {[&](const Tick&) {
      other = std::this_thread::get_id();
      done.count_down();
    }};
  });
  auto actor = system_.spawn([&](caf::event_based_actor* self) -> caf::behavior {
    return {[self, next](const Tick& tick) { self->send(next, tick); }};
  });
  inline_.deliver(actor, Tick{});
  done.wait();
  EXPECT_NE(other, std::this_thread::get_id());
}

TEST_F(InlineDeliveryTest, AnActorThatHasEndedTakesNothing) {
  auto actor = system_.spawn([](caf::event_based_actor* self) -> caf::behavior {
    return {[self](const Tick&) { self->quit(); }};
  });
  for (int i = 0; i < 3; ++i) inline_.deliver(actor, Tick{});
}

}  // namespace
}  // namespace gpunode
