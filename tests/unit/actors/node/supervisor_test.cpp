#include "actors/node/supervisor.hpp"

#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include <future>

#include "actors/messages.hpp"

namespace gpunode::node {
namespace {

struct Fail {};

caf::behavior frail(caf::event_based_actor* self) {
  return {
      [](const Fail&) { throw std::runtime_error("planned"); },
      [self](const Shutdown&) { self->quit(); },
  };
}

class Supervision : public ::testing::Test {
 protected:
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
};

TEST_F(Supervision, ends_the_node_with_the_reason_when_a_child_that_holds_state_fails) {
  auto child = system_.spawn(frail);
  std::promise<std::string> failed;
  auto supervisor = spawn_supervisor(system_, {{"jobs", child, nullptr}},
                                     [&](std::string reason) { failed.set_value(reason); });
  caf::anon_send(child, Fail{});
  auto future = failed.get_future();
  ASSERT_EQ(future.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_NE(future.get().find("the jobs actor failed"), std::string::npos);
  caf::anon_send(supervisor, Shutdown{});
}

TEST_F(Supervision, starts_a_child_again_that_keeps_nothing) {
  std::promise<caf::actor> again;
  auto first = system_.spawn(frail);
  auto restart = [&] {
    auto next = system_.spawn(frail);
    again.set_value(next);
    return next;
  };
  bool failed = false;
  auto supervisor =
      spawn_supervisor(system_, {{"health", first, restart}}, [&](std::string) { failed = true; });
  caf::anon_send(first, Fail{});
  auto future = again.get_future();
  ASSERT_EQ(future.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  first = nullptr;
  caf::anon_send(supervisor, Shutdown{});
  supervisor = nullptr;
  system_.await_all_actors_done();  // the restarted one, too, was told
  EXPECT_FALSE(failed);
}

}  // namespace
}  // namespace gpunode::node
