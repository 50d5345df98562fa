#include "runtime/job/job_core.hpp"

#include <gtest/gtest.h>

#include "runtime/base/rng.hpp"
#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

JobCore::Options options_of(int self, int candidates) {
  JobCore::Options options;
  options.self = {node(self), 1};
  options.signer = std::make_shared<view::TwinSigner>(node(self));
  options.job = {1, 1};
  for (int i = 1; i <= candidates; ++i) options.candidates.push_back(node(i));
  options.wanted_nodes = static_cast<std::uint32_t>(candidates);
  options.total_steps = 3;
  options.tree = collective::Tree::of_slices(4);
  options.element_count = 8;
  options.add = [](float* out, std::span<const float* const> inputs, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      float sum = inputs[0][i];
      for (std::size_t j = 1; j < inputs.size(); ++j) sum += inputs[j][i];
      out[i] = sum;
    }
  };
  options.fingerprint = {2, 2};
  options.initial_state_digest = {3, 3};
  options.state_bytes = 4096;
  return options;
}

// Lets a lone core's disk answer until nothing is written any more.
Actions settle(JobCore& core, Time now, Actions actions) {
  Actions all = actions;
  for (bool wrote = true; wrote;) {
    wrote = false;
    Actions next;
    for (const Persist& write : of<Persist>(actions)) {
      wrote = true;
      core.on_persisted(now, write.token, next);
    }
    all.insert(all.end(), next.begin(), next.end());
    actions = std::move(next);
  }
  return all;
}

TEST(JobCore, options_that_cannot_work_are_refused_with_a_reason) {
  auto none = options_of(1, 1);
  none.candidates.clear();
  EXPECT_FALSE(JobCore::create(none));
  auto small = options_of(1, 1);
  small.min_nodes = 4;
  ASSERT_FALSE(JobCore::create(small));
  EXPECT_NE(JobCore::create(small).error().detail.find("min_nodes"), std::string::npos);
  auto votes = options_of(1, 1);
  votes.votes = Bytes(100);
  EXPECT_EQ(JobCore::create(votes).error().code, ErrorCode::corrupted);
}

TEST(JobCore, a_job_on_one_node_forms_computes_and_finishes) {
  auto core = JobCore::create(options_of(1, 1));
  ASSERT_TRUE(core);
  Time now{};
  Actions out;
  core->on_start(now, out);
  now += 100ms;
  core->on_tick(now, out);
  Actions all = settle(*core, now, out);
  ASSERT_EQ(of<ViewInstalled>(all).size(), 1u);
  EXPECT_EQ(of<ViewInstalled>(all)[0].role, Role::member);
  std::vector<Compute> wishes = of<Compute>(all);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    ASSERT_EQ(wishes.size(), 1u);
    EXPECT_EQ(wishes[0].step, step);
    ASSERT_EQ(wishes[0].nodes.size(), 1u) << "one node owns the root";
    Actions next;
    const auto sum = std::make_shared<const std::vector<float>>(8, 1.0f);
    core->on_partial(
        now, {wishes[0].id, step, wishes[0].nodes[0], sum, {{1, 1}, 4}, 0, sum->size(), {}}, next);
    ASSERT_EQ(of<Apply>(next).size(), 1u);
    EXPECT_EQ(of<Committed>(next)[0].running.sample_count, 4 * step);
    EXPECT_TRUE(of<Compute>(next).empty()) << "the state is not updated yet";
    core->on_applied(now, step, {step, step}, next);
    wishes = of<Compute>(next);
  }
  Actions last;
  core->on_tick(now + 50ms, last);
  EXPECT_EQ(of<Finished>(last).size(), 1u);
  EXPECT_EQ(core->status(now).phase, Phase::done);
  EXPECT_EQ(core->committed(), 3u);
}

TEST(JobCore, a_spare_node_is_told_once_of_a_job_that_has_ended) {
  auto options = options_of(1, 1);
  options.total_steps = 1;
  auto core = JobCore::create(options);
  ASSERT_TRUE(core);
  Time now{};
  Actions out;
  core->on_start(now, out);
  now += 100ms;
  core->on_tick(now, out);
  const std::vector<Compute> wishes = of<Compute>(settle(*core, now, out));
  ASSERT_EQ(wishes.size(), 1u);
  Actions last;
  const auto sum = std::make_shared<const std::vector<float>>(8, 1.0f);
  core->on_partial(now, {wishes[0].id, 1, wishes[0].nodes[0], sum, {{1, 1}, 4}, 0, 8, {}}, last);
  core->on_applied(now, 1, {1, 1}, last);
  core->on_tick(now += 50ms, last);
  ASSERT_EQ(of<Finished>(last).size(), 1u);

  core->set_spares({node(2), node(3)});
  Actions after;
  for (int tick = 0; tick < 100; ++tick) core->on_tick(now += 1s, after);
  EXPECT_EQ(of<Recruit>(after).size(), 2u);
}

TEST(JobCore, of_a_node_that_has_come_back_with_the_result_gives_it_to_who_lacks_it) {
  auto options = options_of(1, 2);
  options.has_result = true;
  EXPECT_FALSE(JobCore::create(options)) << "it has none";
  options.checkpoint = {3, {9, 9}, {{1, 1}, 12}, {}};
  auto core = JobCore::create(options);
  ASSERT_TRUE(core);
  Time now{};
  Actions out;
  core->on_start(now, out);
  for (int i = 0; i < 100; ++i) core->on_tick(now += 50ms, out);
  EXPECT_TRUE(out.empty()) << "it wants nothing of anybody";
  JoinAsk ask;
  ask.fingerprint = {2, 2};
  core->on_message(now, node(2), {{1, 1}, core->view().name(), 1, ask}, out);
  const auto told = sent<StepStatus>(out);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].second.finished);
  EXPECT_EQ(told[0].second.committed, 3u);
  EXPECT_EQ(told[0].second.result, (Digest{9, 9}));
  core->on_message(now, node(2), {{1, 1}, core->view().name(), 1, StateAsk{3, {9, 9}}}, out);
  const auto reads = of<ReadState>(out);
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].step, 3u);
}

TEST(JobCore, gradients_are_let_go_of_when_the_job_is_over) {
  auto options = options_of(1, 1);
  options.total_steps = 1;
  auto core = JobCore::create(options);
  Time now{};
  std::weak_ptr<const std::vector<float>> kept;
  {
    Actions out;
    core->on_start(now, out);
    core->on_tick(now += 100ms, out);
    const auto wishes = of<Compute>(settle(*core, now, out));
    ASSERT_EQ(wishes.size(), 1u);
    auto sum = std::make_shared<const std::vector<float>>(8, 1.0f);
    kept = sum;
    core->on_partial(
        now, {wishes[0].id, 1, wishes[0].nodes[0], std::move(sum), {{1, 1}, 4}, 0, 8, {}}, out);
  }
  EXPECT_FALSE(kept.expired()) << "somebody may still ask for it";
  Actions last;
  core->on_applied(now, 1, {1, 1}, last);
  core->on_tick(now + 50ms, last);
  EXPECT_EQ(of<Finished>(last).size(), 1u);
  EXPECT_TRUE(kept.expired()) << "for the node's life";
}

TEST(JobCore, nothing_is_promised_before_the_disk_answers) {
  auto core = JobCore::create(options_of(2, 3));
  ASSERT_TRUE(core);
  Actions out;
  core->on_start(Time{}, out);
  out.clear();
  core->on_message(Time{} + 1ms, node(1), {{1, 1}, {{}, 0}, 1, Vote{view::Prepare{{4, node(1)}}}},
                   out);
  EXPECT_TRUE(of<Send>(out).empty());
  ASSERT_EQ(of<Persist>(out).size(), 1u);
  Actions next;
  core->on_persisted(Time{} + 2ms, of<Persist>(out)[0].token, next);
  ASSERT_EQ(of<Send>(next).size(), 1u);
  EXPECT_EQ(of<Send>(next)[0].to, node(1));
}

TEST(JobCore, messages_of_another_job_are_ignored) {
  auto core = JobCore::create(options_of(2, 3));
  Actions out;
  core->on_start(Time{}, out);
  out.clear();
  core->on_message(Time{} + 1ms, node(1), {{9, 9}, {{}, 0}, 1, Vote{view::Prepare{{4, node(1)}}}},
                   out);
  EXPECT_TRUE(out.empty());
}

TEST(JobCore, a_newer_view_is_asked_for_and_an_unproven_one_ignored) {
  auto core = JobCore::create(options_of(2, 3));
  Actions out;
  core->on_start(Time{}, out);
  out.clear();
  core->on_message(Time{} + 1s, node(1), {{1, 1}, {{}, 3}, 1, StepStatus{1, true, false}}, out);
  ASSERT_EQ(of<Send>(out).size(), 1u);
  EXPECT_TRUE(std::holds_alternative<ViewAsk>(of<Send>(out)[0].message.body));
  view::View view = core->view();
  view.view_id = 1;
  view.members = {{node(1), 1}, {node(2), 1}};
  view.plan = {0, 0, 1, 1};
  out.clear();
  core->on_message(
      Time{} + 1s, node(1),
      {{1, 1}, {{}, 1}, 1, ViewNotice{{view::decided_by(core->view(), view, {node(1)})}}}, out);
  EXPECT_TRUE(of<ViewInstalled>(out).empty()) << "one of three is no quorum";
  const auto decided = view::decided_by(core->view(), view, {node(1), node(3)});
  auto forged = decided;
  forged.seals[1].signature = forged.seals[0].signature;
  core->on_message(Time{} + 2s, node(1), {{1, 1}, {{}, 1}, 1, ViewNotice{{forged}}}, out);
  EXPECT_TRUE(of<ViewInstalled>(out).empty()) << "node 3 did not sign it";
  core->on_message(Time{} + 3s, node(1), {{1, 1}, {{}, 1}, 1, ViewNotice{{decided}}}, out);
  EXPECT_EQ(of<ViewInstalled>(out).size(), 1u);
}

TEST(JobCore, a_view_whose_plan_does_not_fit_the_job_is_ignored) {
  auto core = JobCore::create(options_of(2, 3));
  Actions out;
  core->on_start(Time{}, out);
  view::View view = core->view();
  view.view_id = 1;
  view.members = {{node(1), 1}, {node(2), 1}};
  for (const std::vector<std::uint16_t>& plan :
       {std::vector<std::uint16_t>{0, 1}, std::vector<std::uint16_t>{0, 1, 2, 3}}) {
    view.plan = plan;
    core->on_message(Time{} + 1s, node(1),
                     {{1, 1},
                      {{}, 1},
                      1,
                      ViewNotice{{view::decided_by(core->view(), view, {node(1), node(3)})}}},
                     out);
    core->on_message(Time{} + 1s, node(1),
                     {{1, 1}, {{}, 0}, 1, Vote{view::Accept{{4, node(1)}, view}}}, out);
  }
  EXPECT_TRUE(of<ViewInstalled>(out).empty());
  EXPECT_EQ(core->view().view_id, 0u);
}

TEST(JobCore, a_job_without_its_wanted_least_number_says_what_it_waits_for) {
  auto options = options_of(1, 2);
  options.wanted_nodes = options.min_nodes = 2;
  auto core = JobCore::create(options);
  Actions out;
  Time now{};
  core->on_start(now, out);
  Actions all;
  for (int i = 0; i < 400; ++i) {
    now += 25ms;
    core->on_tick(now, out);
    const Actions done = settle(*core, now, std::move(out));
    all.insert(all.end(), done.begin(), done.end());
    out.clear();
  }
  ASSERT_EQ(of<Paused>(all).size(), 1u);
  EXPECT_TRUE(of<ViewInstalled>(all).empty());
  EXPECT_NE(core->status(now).reason.find("needs 2 nodes"), std::string::npos)
      << core->status(now).reason;
}

}  // namespace
}  // namespace gpunode::job
