// The parts of a node as heads reach them: who may wait, and for how much.
#include "actors/inference/detail/part_actor.hpp"

#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>

#include <chrono>
#include <future>
#include <vector>

#include "tests/unit/actors/inference/parts_fixture.hpp"

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;

// A part that keeps what it is asked.
class Shelf : public ::testing::Test {
 protected:
  Shelf() { shelf_->put(name_, caf::actor_cast<caf::actor>(part_.ptr())); }

  std::future<Error> ask(const NodeId& from, Bytes bytes) {
    const auto said = std::make_shared<std::promise<Error>>();
    answers_(from, SharedBytes::from(std::move(bytes)),
             [said](const Result<SharedBytes>& answer) { said->set_value(answer.error()); });
    return said->get_future();
  }
  std::future<Error> ask(const NodeId& from) {
    return ask(from, encode_part(PartClose{.part = name_}));
  }
  static Error told(std::future<Error> answer) {
    if (answer.wait_for(20s) != std::future_status::ready) return {ErrorCode::internal, "nothing"};
    return answer.get();
  }
  PartOrder next() {
    PartOrder next;
    part_->receive([&](const PartOrder& order) { next = order; },
                   caf::after(20s) >> [] { FAIL() << "nothing was passed on"; });
    return next;
  }

  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  caf::scoped_actor part_{system_};
  PartName name_{.number = 1, .of = 3};
  std::shared_ptr<PartShelf> shelf_ = std::make_shared<PartShelf>();
  CallHandler answers_ = PartShelf::answers(shelf_, system_);
};

TEST_F(Shelf, SixteenOrdersOfANodeWaitAndTheRestIsRefused) {
  std::vector<PartOrder> waiting;
  for (int order = 0; order < 16; ++order) {
    ask(node_id(1));
    waiting.push_back(next());
    EXPECT_EQ(waiting.back().from, node_id(1));
  }
  const Error refused = told(ask(node_id(1)));
  EXPECT_EQ(refused.code, ErrorCode::resource_exhausted);
  EXPECT_THAT(refused.detail, HasSubstr("16"));
  ask(node_id(2));
  waiting.push_back(next());
  EXPECT_EQ(waiting.back().from, node_id(2)) << "another waits for itself alone";

  waiting.erase(waiting.begin());
  ask(node_id(1));
  EXPECT_EQ(next().from, node_id(1));
}

TEST_F(Shelf, WhatIsNoOrderHoldsNoPlace) {
  for (int order = 0; order < 40; ++order)
    EXPECT_EQ(told(ask(node_id(1), Bytes(3))).code, ErrorCode::corrupted);
  ask(node_id(1));
  EXPECT_EQ(next().from, node_id(1));
}

TEST_F(Shelf, APartThatIsNotHereIsNamed) {
  shelf_->take(caf::actor_cast<caf::actor>(part_.ptr()));
  const Error missing = told(ask(node_id(1)));
  EXPECT_EQ(missing.code, ErrorCode::not_found);
  EXPECT_THAT(missing.detail, HasSubstr("2/3"));
}

}  // namespace
}  // namespace gpunode::inference
