#include "actors/mailbox.hpp"

#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>

#include <atomic>
#include <string>
#include <vector>

#include "actors/messages.hpp"

namespace gpunode {
namespace {

struct OwnHere {};
static_assert(OwnMessage<OwnHere> && OwnMessage<NetMessage>);
static_assert(!OwnMessage<std::string> && !OwnMessage<std::vector<NetMessage>>);
static_assert(!OwnMessage<caf::down_msg> && !OwnMessage<PeerHealth>);

caf::behavior knows_ticks(caf::event_based_actor* self, std::atomic<int>* ticks) {
  expect_known_messages(self);
  return {
      [ticks](const Tick&) { ++*ticks; },
      [self](const Shutdown&) { self->quit(); },
  };
}

void send_stray_and_tick(std::atomic<int>* ticks) {
  caf::actor_system_config config;
  caf::actor_system system{config};
  caf::scoped_actor sender{system};
  caf::actor receiver = system.spawn(knows_ticks, ticks);
  sender->send(receiver, BeginJob{});
  sender->send(receiver, Tick{});
  sender->send(receiver, Shutdown{});
  sender->wait_for(receiver);
}

TEST(Mailbox, tells_of_a_message_that_its_actor_does_not_know_and_goes_on) {
  std::atomic<int> ticks{0};
  stray_messages_abort = false;
  ::testing::internal::CaptureStderr();
  send_stray_and_tick(&ticks);
  stray_messages_abort = true;
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(ticks, 1);
  EXPECT_NE(said.find("does not know: gpunode::BeginJob"), std::string::npos) << said;
}

TEST(MailboxDeathTest, ends_the_process_in_a_test) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "who aborts with threads at work hangs in the thread sanitizer's own end";
#endif
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  std::atomic<int> ticks{0};
  EXPECT_DEATH(send_stray_and_tick(&ticks), "does not know: gpunode::BeginJob");
}

}  // namespace
}  // namespace gpunode
