// What may be said of states, copies and steps to harm who fetches them.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/base/block_digest.hpp"
#include "runtime/job/copies.hpp"
#include "runtime/job/durability.hpp"
#include "runtime/job/early_steps.hpp"
#include "runtime/job/learner.hpp"
#include "tests/unit/runtime/job/hostile_fixture.hpp"

namespace gpunode::job {
namespace {

class HostileCopiesTest : public ContextTest {
 protected:
  HostileCopiesTest() { enter({2}, {1, 3}); }
  void ask(const view::CheckpointName& name, const Digest& digest) {
    copies_.on_offer({job_.now, name, digest}, false, out_);
  }
  Durability durability_{job_};
  Copies copies_{job_, durability_};
};

// All states of a job have one size (3 values a parameter); CheckpointShelf aborts at another.
TEST_F(HostileCopiesTest, a_state_of_another_size_than_the_models_is_no_copy) {
  const Bytes bytes(12, std::byte{1});  // a state takes 20
  const Digest name = block_digest_of(bytes);
  ask({{}, 4}, name);
  copies_.on_message(node(2), StateMeta{4, bytes.size(), name, {}, {}}, out_);
  copies_.on_message(node(2), StatePart{name, 0, SharedBytes::from(bytes)}, out_);
  EXPECT_TRUE(of<KeepCopy>(out_).empty());
}

TEST_F(HostileCopiesTest, a_checkpoint_after_the_jobs_last_step_is_not_fetched) {
  ask({{}, kHuge}, digest(1));
  EXPECT_TRUE(sent<StateAsk>(out_).empty());
}

TEST_F(HostileCopiesTest, a_checkpoint_of_no_history_of_the_view_is_not_fetched) {
  ask({{0xffffffff, 7}, 4}, digest(1));
  EXPECT_TRUE(sent<StateAsk>(out_).empty());
}

class HostileLearnerTest : public ContextTest {
 protected:
  HostileLearnerTest() {
    enter({2, 3});
    job_.wants_in = true;
  }
};

// Whether it asks for what comes next, of node 3, after node 2 has boasted and gone.
TEST_F(HostileLearnerTest, a_boast_does_not_keep_a_learner_from_asking_the_others) {
  job_.options.total_steps = 1000;
  stand_at(104);
  for (const bool boasts : {false, true}) {
    Learner learner(job_);
    if (boasts) learner.on_status(node(2), {kHuge, true, false, 105, {}}, out_);
    learner.on_gone(node(2));
    out_.clear();
    for (int i = 0; i < 100; ++i) {
      pass(100ms);
      learner.on_status(node(3), {106, true, false, 105, {}}, out_);
      learner.on_tick(out_);
    }
    EXPECT_FALSE(sent<ResultRead>(out_).empty())
        << (boasts ? "it never comes in, though the liar is gone" : "the test is wrong");
  }
}

TEST_F(HostileLearnerTest, a_boast_does_not_keep_a_learner_from_a_state) {
  job_.options.total_steps = 1000;
  for (const bool boasts : {false, true}) {
    Learner learner(job_);
    job_.progress.follow({7, 7});  // it has nothing of this history
    if (boasts) learner.on_status(node(2), {kHuge, true, false, 105, {}}, out_);
    learner.on_gone(node(2));
    out_.clear();
    for (int i = 0; i < 100; ++i) {
      pass(100ms);
      learner.on_status(node(3), {static_cast<std::uint64_t>(106 + i), true, false, 105, {}}, out_);
      learner.on_tick(out_);
    }
    const auto asks = sent<StateAsk>(out_);
    EXPECT_TRUE(std::any_of(
        asks.begin(), asks.end(),
        [](const auto& one) { return one.second.step >= 106 && one.second.step <= 220; }))
        << (boasts ? "it asks for what nobody holds, though the liar is gone"
                   : "the test is wrong");
  }
}

// The digest proves the bytes and nothing else.
TEST(HostileState, what_goes_with_a_state_is_what_most_tell) {
  const Bytes bytes(20, std::byte{7});
  const Digest name = block_digest_of(bytes);
  StateFetch::Options options;
  options.step = 4;
  options.state_digest = name;
  options.sources = {node(2), node(3), node(4)};
  options.size_bytes = 20;
  options.part_bytes = 32;
  StateFetch fetch(options);
  StateFetch::Effects out;
  const Time now = Time{} + 1h;
  fetch.on_meta(now, node(2), {4, 20, name, digest(666), {digest(666), 1}}, out);  // a liar
  for (const int honest : {3, 4})
    fetch.on_meta(now, node(honest), {4, 20, name, digest(2004), {digest(9), 16}}, out);
  fetch.on_part(now, node(2), {name, 0, SharedBytes::from(bytes)}, out);
  ASSERT_TRUE(out.complete);
  EXPECT_EQ(fetch.meta()->data_fingerprint.sample_count, 16u)
      << "the ledger tells the liar's samples for good";
  EXPECT_EQ(fetch.meta()->result_digest, digest(2004));
}

TEST(HostileState, a_source_that_offers_nonsense_is_told_of_once) {
  StateFetch::Options options;
  options.step = 4;
  options.sources = {node(2)};
  options.size_bytes = 20;
  StateFetch fetch(options);
  int reports = 0;
  for (int i = 0; i < 100; ++i) {
    StateFetch::Effects out;
    fetch.on_meta(Time{} + 1h, node(2), {4, 21, digest(1), {}, {}}, out);
    reports += !out.report.empty();
  }
  EXPECT_EQ(reports, 1);
}

// A list of all chunks of a large model takes megabytes.
TEST(HostileEarly, questions_count_among_the_bytes_that_are_kept) {
  EarlySteps early(100'000);
  collective::Need need;
  for (std::uint32_t chunk = 0; chunk < 1000; ++chunk) need.result_chunks.push_back(chunk);
  for (int i = 0; i < 1000; ++i) early.keep_early({{}, 7}, node(kStranger), {4, {}, need});
  early.on_view({{}, 7});
  EXPECT_EQ(early.take().size(), 25u);
}

TEST(HostileEarly, a_view_that_never_comes_does_not_displace_those_that_do) {
  EarlySteps early(100);
  early.keep_early({{}, kHuge}, node(kStranger), {4, {}, collective::Done{}});
  early.on_view({{}, 5});
  early.keep_early({{}, 6}, node(2), {4, {}, collective::Done{}});
  early.on_view({{}, 6});
  EXPECT_EQ(early.take().size(), 1u) << "each view begins with the silence before a NEED";
}

class HostileDurabilityTest : public ContextTest {
 protected:
  HostileDurabilityTest() {
    enter({1, 2});
    stand_at(8);
  }
  Durability durability_{job_};
};

TEST_F(HostileDurabilityTest, a_strangers_copy_makes_nothing_durable) {
  job_.checkpoint = {6, digest(1006), {}, {}};
  durability_.on_told(node(kStranger), {job_.now, false, true, {{}, 6}});
  EXPECT_FALSE(durability_.to_note(0)) << "it is on this disk alone";
}

}  // namespace
}  // namespace gpunode::job
