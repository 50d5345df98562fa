// What a voter refuses to vote for by what it knows itself, whatever the promises are; by those see
// proposal_rules_test.cpp.
#include <optional>

#include <gtest/gtest.h>

#include "tests/support/broken_rules.hpp"
#include "tests/unit/runtime/job/at_once_disk.hpp"
#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

// Node 1, which votes with nodes 2 and 3 in a view that goes on from step 5, with a durable
// checkpoint of step 4.
class VoteRules : public ::testing::Test {
 protected:
  VoteRules() {
    auto made = JobCore::create(context_options());
    core_.emplace(std::move(*made));
    feed([&](Actions& out) { core_->on_start(now_, out); });
    view::View first = core_->view();
    first.view_id = 1;
    for (int i = 1; i <= 3; ++i) first.members.push_back({node(i), 1});
    first.plan = {0, 0, 1, 2};
    first.fingerprint = digest(77);
    first.base_step = 5;
    first.floor = {{{}, 4}, {node(2), node(3)}};
    const view::DecidedView decided = view::decided_by(core_->view(), first, {node(1), node(2)});
    hear(first.name(), ViewNotice{{decided}});
    EXPECT_EQ(core_->view().view_id, 1u);
    next_ = core_->view();
    ++next_.view_id;
    next_.previous = core_->view().digest();
  }

  template <class Input>
  Actions feed(Input input) {
    return with_disk(*core_, now_, input);
  }
  Actions hear(const view::ViewName& in, JobBody body) {
    return feed([&](Actions& out) {
      core_->on_message(now_, node(2), {{1, 1}, in, 1, std::move(body)}, out);
    });
  }
  bool votes_for(const view::View& view) {
    const testing::BreakRule unproven("proposals_unproven");
    const view::Accept accept{{++round_, node(2)}, view, {}};
    const Actions out = hear(core_->view().name(), Vote{accept});
    for (const auto& [to, vote] : sent<Vote>(out))
      if (std::holds_alternative<view::Accepted>(vote.message)) return true;
    return false;
  }
  template <class Change>
  bool votes_if(Change change) {
    view::View changed = next_;
    change(changed);
    return votes_for(changed);
  }

  std::optional<JobCore> core_;
  view::View next_;
  std::uint64_t round_ = 0;
  Time now_ = Time{} + 1h;
};

TEST_F(VoteRules, what_follows_gets_its_vote) {
  EXPECT_TRUE(votes_for(next_));
  EXPECT_TRUE(votes_if([](view::View& v) { v.base_step = 7; }));
  EXPECT_TRUE(votes_if([](view::View& v) { v.floor.name.step = 5; }));
  EXPECT_TRUE(votes_if([](view::View& v) { ++v.owner_rotation; }));
}

TEST_F(VoteRules, no_view_goes_behind_the_one_of_now_but_to_a_checkpoint) {
  EXPECT_FALSE(votes_if([](view::View& v) { v.base_step = 4; }));
  EXPECT_TRUE(votes_if([](view::View& v) {
    v.base_step = 4;
    v.restores = true;
    v.turns.push_back({v.view_id, 4, 9, view::Turn::Kind::rollback});
  }));
}

TEST_F(VoteRules, a_history_is_not_changed_in_passing) {
  EXPECT_FALSE(votes_if([](view::View& v) {
    v.turns.push_back({v.view_id, 5, 9, view::Turn::Kind::ordered});
  }));
  EXPECT_FALSE(votes_if([](view::View& v) {
    v.turns.push_back({v.view_id, 5, 9, view::Turn::Kind::rollback});
  })) << "without going back";
  EXPECT_FALSE(votes_if([](view::View& v) { v.restores = true; }))
      << "what it goes back from would be taken for the new history's";
  EXPECT_FALSE(votes_if([](view::View& v) {
    v.restores = true;
    v.turns.push_back({v.view_id, 5, 9, view::Turn::Kind::split});
  }));
}

TEST_F(VoteRules, a_job_stops_and_goes_on_only_by_an_order_of_who_may_give_it) {
  using view::OrderKind;
  const auto stops_by = [this](const std::optional<view::SignedOrder>& order) {
    return votes_if([&](view::View& v) { v.stopped = true, v.order = order; });
  };
  EXPECT_FALSE(stops_by({}));
  EXPECT_FALSE(stops_by(view::order_of({1, 1}, node(2), OrderKind::stop, 5)));
  EXPECT_FALSE(stops_by(ordered(OrderKind::resume, 5)));
  EXPECT_FALSE(stops_by(ordered(OrderKind::recover, 5)));
  view::SignedOrder later = ordered(OrderKind::stop, 5);
  ++later.issued;
  EXPECT_FALSE(stops_by(later));
  EXPECT_TRUE(stops_by(ordered(OrderKind::stop, 5)));
  EXPECT_FALSE(votes_if([](view::View& v) { v.order = ordered(OrderKind::stop, 5); }))
      << "and does not stop";
  EXPECT_TRUE(votes_if([](view::View& v) { v.order = ordered(OrderKind::resume, 5); }));
}

TEST_F(VoteRules, a_promise_of_an_order_that_nobody_may_give_is_counted) {
  const auto refused = [this](const view::SignedOrder& order) {
    const std::uint64_t before = core_->status(now_).refused_orders;
    view::Standing where;
    where.order = order;
    hear(core_->view().name(), Vote{view::Promise{{1, node(1)}, {}, where, {}}});
    return core_->status(now_).refused_orders - before;
  };
  EXPECT_EQ(refused(view::order_of({1, 1}, node(2), view::OrderKind::stop, 5)), 1u);
  EXPECT_EQ(refused(ordered(view::OrderKind::stop, 5)), 0u);
}

TEST_F(VoteRules, the_durable_floor_the_arithmetic_and_the_rotation_stand) {
  EXPECT_FALSE(votes_if([](view::View& v) { v.floor = {}; }));
  EXPECT_FALSE(votes_if([](view::View& v) { v.fingerprint = digest(5); }));
  EXPECT_FALSE(votes_if([](view::View& v) { v.owner_rotation += 2; }));
}

}  // namespace
}  // namespace gpunode::job
