// What a member, or any node with a key of the cluster, may say to harm others. Each test tells what
// should happen; one that fails is a defect that a liar can use.
#include <gtest/gtest.h>

#include <csignal>

#include "runtime/base/block_digest.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/job/copies.hpp"
#include "runtime/job/durability.hpp"
#include "runtime/job/early_steps.hpp"
#include "runtime/job/ending.hpp"
#include "runtime/job/job_codec.hpp"
#include "runtime/job/learner.hpp"
#include "runtime/job/step_plan.hpp"
#include "runtime/job/view_proposal.hpp"
#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

constexpr std::uint64_t kHuge = ~std::uint64_t{0};
const int kStranger = 9;  // has a key of the cluster, and no part in the job

using Promisers = std::vector<view::ViewAgreement::Promiser>;

ProposalRules rules_of(std::uint32_t wanted) {
  ProposalRules rules;
  rules.tree = collective::Tree::of_slices(8);
  rules.wanted_nodes = wanted;
  rules.total_steps = 100;
  return rules;
}

view::View current_of(int members) {
  view::View view;
  view.job = {1, 1};
  view.view_id = 5;
  view.base_step = 10;
  view.fingerprint = digest(77);
  for (int i = 1; i <= members; ++i) {
    view.members.push_back({node(i), 1});
    view.acceptors.push_back(node(i));
  }
  view.tie = node(1);
  view.plan =
      collective::balanced_plan(collective::Tree::of_slices(8), static_cast<std::uint16_t>(members))
          .owner;
  return view;
}

view::ViewAgreement::Promiser at(int number, std::uint64_t step) {
  view::Standing standing;
  standing.boot = 1;
  standing.has_memory = true;
  standing.applied = standing.held = step;
  standing.fingerprint = digest(77);
  standing.applied_result_digest = standing.held_result_digest = digest(1000 + step);
  standing.state_digest = digest(2000 + step);
  return {node(number), standing};
}

view::ViewAgreement::Promiser restarted(int number) {
  auto one = at(number, 0);
  one.standing.has_memory = false;
  one.standing.boot = 2;
  return one;
}

// --- 1. a crash of all members -----------------------------------------------------------------

// The words of a pace that was measured in 65535 steps: one more is no step at all.
TEST(HostilePaces, a_promise_cannot_make_every_member_divide_by_zero) {
  const view::View current = current_of(3);
  auto liar = at(2, 20);
  liar.standing.plan = current.plan;
  collective::Paces paces = collective::Paces::of_members(3);
  for (collective::Pace& pace : paces.members) pace = {1000, 1, 0xffff};
  paces.gradient_us = 1000;
  paces.gradient_samples = 0xffff;
  liar.standing.paces = paces.to_words();
  // The codec lets it through.
  const JobMessage said{{1, 1}, {{}, 5}, 1, Vote{view::Promise{{1, node(1)}, {}, liar.standing}}};
  const auto encoded = encode_message(said);
  const auto heard = decode_message(encoded.body, {}, {1, 1}, 8);
  ASSERT_TRUE(heard) << "refused: then all is well";
  liar.standing = std::get<view::Promise>(std::get<Vote>(heard->body).message).standing;

  const auto next = propose_view(rules_of(3), current, {at(1, 20), liar, at(3, 20)}, {});
  ASSERT_TRUE(next);
  const auto commit_a_step = [&] {
    const collective::Tree tree = collective::Tree::of_slices(8);
    const collective::Routing routing;
    StepPlan plan(tree, routing);
    plan.begin(*next);
    collective::StepTimes honest;
    honest.compute = {100'000, 0, 3, 1};
    honest.gather_us = 1000;
    plan.next(*next, 22, {honest, honest, honest});  // as at the commit of step 21
    std::exit(0);
  };
  EXPECT_EXIT(commit_a_step(), testing::ExitedWithCode(0), "")
      << "each member dies at its first commit in the next view";
}

// --- 2. a crash of a witness; copies -------------------------------------------------------------

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
  const Bytes bytes(12, std::byte{1});  // max_state_bytes is 4096, exactly what a state takes
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

// --- 3. the end of a job -------------------------------------------------------------------------

// A job on one node; its driver answers at once, and its steps are computed by `compute`.
class LoneCore {
 public:
  LoneCore() {
    JobCore::Options options = context_options();
    options.candidates = {node(1)};
    options.wanted_nodes = 1;
    auto made = JobCore::create(std::move(options));
    core_.emplace(std::move(*made));
    feed([&](Actions& out) { core_->on_start(now_, out); });
    for (int i = 0; i < 20; ++i) tick();
  }
  template <class Input>
  void feed(Input input) {
    Actions out;
    input(out);
    while (!out.empty()) {
      Actions more;
      for (const Action& one : out) {
        all_.push_back(one);
        if (const auto* write = std::get_if<Persist>(&one))
          core_->on_persisted(now_, write->token, more);
        if (const auto* apply = std::get_if<Apply>(&one))
          core_->on_applied(now_, apply->step, digest(100 + apply->step), more);
        if (const auto* load = std::get_if<InstallState>(&one))
          core_->on_state_installed(now_, load->step, more);
        if (const auto* compute = std::get_if<Compute>(&one)) wish_ = *compute;
      }
      out = std::move(more);
    }
  }
  void tick(Duration time = 50ms) {
    now_ += time;
    feed([&](Actions& out) { core_->on_tick(now_, out); });
  }
  void hear(int from, const view::ViewName& view, JobBody body) {
    feed([&](Actions& out) {
      core_->on_message(now_, node(from), {{1, 1}, view, 1, std::move(body)}, out);
    });
  }
  void compute() {
    const Compute wish = std::exchange(wish_, Compute{});
    const auto sum = std::make_shared<const std::vector<float>>(8, 1.0f);
    for (const collective::TreeNode& one : wish.nodes)
      feed([&](Actions& out) {
        core_->on_partial(now_, {wish.order, wish.step, one, sum, {{1, 1}, 4}, 0, 8, {100'000, 0, 4, 1}},
                          out);
      });
  }
  JobCore& core() { return *core_; }
  const Actions& all() const { return all_; }
  Time now() const { return now_; }

 private:
  std::optional<JobCore> core_;
  Actions all_;
  Compute wish_;
  Time now_ = Time{} + 1h;
};

TEST(HostileEnd, a_stranger_does_not_end_a_job_with_a_state_of_its_own) {
  LoneCore lone;
  lone.compute();
  ASSERT_EQ(lone.core().committed(), 1u);
  const Bytes lie(12, std::byte{6});
  const Digest name = block_digest_of(lie);
  const view::ViewName nowhere{{1, 99}, 1};  // a history that nobody has heard of
  lone.hear(kStranger, nowhere, StepStatus{10, true, true, 0, name});
  lone.tick();
  lone.hear(kStranger, nowhere, StateMeta{10, lie.size(), name, digest(1), {}});
  lone.hear(kStranger, nowhere, StatePart{name, 0, SharedBytes::from(lie)});
  EXPECT_TRUE(of<InstallState>(lone.all()).empty()) << "the weights are replaced by the stranger's";
  EXPECT_TRUE(of<Finished>(lone.all()).empty());
  EXPECT_EQ(lone.core().committed(), 1u);
  EXPECT_NE(lone.core().state_digest(), name);
}

TEST(HostileEnd, one_word_of_a_stranger_does_not_stop_a_member_from_computing) {
  LoneCore lone;
  lone.compute();
  lone.hear(kStranger, {{1, 99}, 1}, StepStatus{10, true, true, 0, digest(6)});
  lone.compute();
  EXPECT_EQ(lone.core().committed(), 2u);
}

// The paces of the first test, in a whole core: it dies at its next commit.
TEST(HostilePaces, a_view_with_such_paces_does_not_kill_a_core) {
  const auto take_and_commit = [] {
    LoneCore lone;
    lone.compute();
    view::View next = lone.core().view();
    next.previous = next.digest();
    ++next.view_id;
    next.base_step = 1;
    next.state_digest = lone.core().state_digest();
    collective::Paces paces = collective::Paces::of_members(1);
    paces.members[0] = {1000, 1, 0xffff};
    next.paces = paces.to_words();
    lone.hear(kStranger, next.name(), ViewNotice{{next, {node(1)}}});
    if (lone.core().view().view_id == next.view_id) lone.compute();
    std::exit(0);
  };
  EXPECT_EXIT(take_and_commit(), testing::ExitedWithCode(0), "");
}

// --- 4. votes ------------------------------------------------------------------------------------

class HostileVotesTest : public ContextTest {
 protected:
  HostileVotesTest() { enter({1, 2, 3}); }
  view::ViewAgreement::Effects say(int from, const view::VoteMessage& message) {
    view::ViewAgreement::Effects out;
    job_.agreement.on_message(job_.now, node(from), message, out);
    view::ViewAgreement::Effects after;
    for (const auto& [token, bytes] : out.persists)
      job_.agreement.on_persisted(job_.now, token, after);
    for (auto& one : after.sends) out.sends.push_back(std::move(one));
    return out;
  }
  template <class T>
  static std::vector<T> of_kind(const view::ViewAgreement::Effects& effects) {
    std::vector<T> found;
    for (const auto& [to, message] : effects.sends)
      if (const auto* one = std::get_if<T>(&message)) found.push_back(*one);
    return found;
  }
  // Node 1 wants a change and proposes, heard by node 2; what it asks.
  std::vector<view::Prepare> propose() {
    job_.agreement.want_change(job_.now);
    std::vector<view::Prepare> asked;
    for (int i = 0; i < 400 && asked.empty(); ++i) {
      pass(25ms);
      view::ViewAgreement::Effects out;
      job_.agreement.on_tick(job_.now, out);
      auto effects = out;
      for (const view::Probe& probe : of_kind<view::Probe>(out)) {
        auto more = say(2, view::Echo{probe.nonce});
        for (auto& one : more.sends) effects.sends.push_back(std::move(one));
      }
      view::ViewAgreement::Effects after;
      for (const auto& [token, bytes] : out.persists)
        job_.agreement.on_persisted(job_.now, token, after);
      for (auto& one : after.sends) effects.sends.push_back(std::move(one));
      asked = of_kind<view::Prepare>(effects);
    }
    return asked;
  }
};

TEST_F(HostileVotesTest, who_has_no_part_in_the_view_freezes_nobody) {
  say(kStranger, view::Prepare{{1, node(kStranger)}});
  EXPECT_FALSE(job_.agreement.frozen());
}

TEST_F(HostileVotesTest, who_has_no_vote_gets_none_for_its_view) {
  view::View next = job_.view();
  next.previous = job_.view().digest();
  ++next.view_id;
  next.members = {{node(kStranger), 1}};
  next.acceptors = {node(kStranger)};
  next.tie = node(kStranger);
  const auto out = say(kStranger, view::Accept{{1, node(kStranger)}, next});
  EXPECT_TRUE(of_kind<view::Accepted>(out).empty());
}

TEST_F(HostileVotesTest, a_member_that_nobody_disturbs_proposes) {
  const auto asked = propose();
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(asked[0].ballot.round, 1u);
}

TEST_F(HostileVotesTest, after_the_highest_ballot_there_is_a_higher_one_still) {
  say(3, view::Prepare{{kHuge, node(3)}});  // then it goes away for good
  const auto asked = propose();
  ASSERT_FALSE(asked.empty()) << "nobody ever proposes again, nor after a restart";
  EXPECT_GT(asked[0].ballot.round, 0u) << "round 0 is no ballot: nobody answers it";
}

TEST_F(HostileVotesTest, a_refusal_by_the_highest_ballot_does_not_stop_this_node_from_proposing) {
  say(kStranger, view::Refuse{{kHuge, node(kStranger)}});
  const auto asked = propose();
  ASSERT_FALSE(asked.empty());
  EXPECT_GT(asked[0].ballot.round, 0u);
}

TEST_F(HostileVotesTest, a_floor_beyond_all_steps_does_not_keep_real_ones_from_being_noted) {
  say(kStranger, view::NoteFloor{{{{0xffffffff, 7}, kHuge}, {node(kStranger)}}});
  const auto out = say(2, view::NoteFloor{{{job_.view().history(), 6}, {node(1), node(2)}}});
  EXPECT_EQ(of_kind<view::FloorNoted>(out).size(), 1u)
      << "no checkpoint is ever called durable again: the lie is on disk, and kept by each view";
}

// It passes descends_from: every later view carries it on, and a rollback waits for it.
TEST(HostileFloor, a_floor_after_the_last_step_does_not_become_the_jobs) {
  auto liar = at(2, 20);
  liar.standing.floor = {{{}, kHuge}, {node(200)}};
  const auto next = propose_view(rules_of(3), current_of(3), {at(1, 20), liar, at(3, 20)}, {});
  ASSERT_TRUE(next);
  EXPECT_LE(next->floor.name.step, 100u);
}

// --- 5. what the next view is made of --------------------------------------------------------------

TEST(HostileProposal, a_step_after_the_last_is_no_base) {
  const auto next =
      propose_view(rules_of(3), current_of(3), {restarted(1), at(2, kHuge), restarted(3)}, {});
  EXPECT_TRUE(!next || next->base_step <= 100)
      << "its proposer accepts it, all others refuse it: none follows, ever";
}

TEST(HostileProposal, a_survivor_is_not_behind_the_view_that_it_is_in) {
  auto liar = at(2, 0);  // a member with memory holds at least step 10, the view's base
  const auto next = propose_view(rules_of(3), current_of(3), {at(1, 20), liar, at(3, 20)}, {});
  ASSERT_TRUE(next);
  EXPECT_GE(next->base_step, 10u);
  EXPECT_NE(next->state_digest, digest(2000)) << "all fetch the liar's state";
}

TEST(HostileProposal, a_checkpoint_after_the_last_step_is_nothing_to_go_back_to) {
  view::View current = current_of(3);
  current.floor = {{{}, 50}, {node(1), node(3)}};
  auto one = restarted(1), three = restarted(3);
  one.standing.checkpoint = three.standing.checkpoint = {{}, 50};
  one.standing.checkpoint_digest = three.standing.checkpoint_digest = digest(2050);
  Joining stranger{{node(kStranger), 1}, false, {{}, kHuge}, digest(666)};
  const auto next = propose_view(rules_of(3), current, {one, restarted(2), three}, {stranger});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->base_step, 50u);
  EXPECT_EQ(next->state_digest, digest(2050));
}

TEST(HostileProposal, a_strangers_word_does_not_outdo_the_durable_checkpoint_of_two_members) {
  view::View current = current_of(3);
  current.floor = {{{}, 50}, {node(1), node(3)}};
  auto one = restarted(1), three = restarted(3);
  one.standing.checkpoint = three.standing.checkpoint = {{}, 50};
  one.standing.checkpoint_digest = three.standing.checkpoint_digest = digest(2050);
  Joining stranger{{node(kStranger), 1}, false, {{}, 100}, digest(666)};  // "the job's result"
  const auto next = propose_view(rules_of(3), current, {one, restarted(2), three}, {stranger});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->base_step, 50u);
  EXPECT_EQ(next->state_digest, digest(2050));
}

TEST(HostileView, a_forged_view_with_the_last_number_is_not_taken) {
  LoneCore lone;
  view::View forged = lone.core().view();
  forged.view_id = kHuge;  // no view can come after it
  forged.members = {{node(kStranger), 1}};
  forged.acceptors = {node(kStranger)};
  forged.tie = node(kStranger);
  forged.plan.assign(4, 0);
  lone.hear(kStranger, forged.name(), ViewNotice{{forged, {}}});
  EXPECT_NE(lone.core().view().view_id, kHuge) << "without one acceptor's word";
}

// --- 6. learners -----------------------------------------------------------------------------------

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
    EXPECT_TRUE(std::any_of(asks.begin(), asks.end(), [](const auto& one) {
      return one.second.step >= 106 && one.second.step <= 220;
    })) << (boasts ? "it asks for what nobody holds, though the liar is gone" : "the test is wrong");
  }
}

TEST(HostileState, what_goes_with_a_state_is_compared_as_its_digest_is) {
  const Bytes bytes(20, std::byte{7});
  const Digest name = block_digest_of(bytes);
  StateFetch::Options options;
  options.step = 4;
  options.state_digest = name;
  options.sources = {node(2), node(3)};
  options.max_bytes = 4096;
  options.part_bytes = 32;
  StateFetch fetch(options);
  StateFetch::Effects out;
  const Time now = Time{} + 1h;
  fetch.on_meta(now, node(2), {4, 20, name, digest(666), {digest(666), 1}}, out);  // a liar
  fetch.on_meta(now, node(3), {4, 20, name, digest(2004), {digest(9), 16}}, out);
  fetch.on_part(now, node(3), {name, 0, SharedBytes::from(bytes)}, out);
  ASSERT_TRUE(out.complete || !out.report.empty());
  if (out.complete) {
    EXPECT_EQ(fetch.meta()->data_fingerprint.sample_count, 16u)
        << "the ledger tells the liar's samples for good";
    EXPECT_EQ(fetch.meta()->result_digest, digest(2004));
  }
}

// --- 7. memory ---------------------------------------------------------------------------------------

TEST(HostileEarly, questions_count_among_the_bytes_that_are_kept) {
  EarlySteps early(1 << 20);
  collective::Need need;
  for (std::uint32_t chunk = 0; chunk < 1000; ++chunk) need.result_chunks.push_back(chunk);
  for (int i = 0; i < 65536; ++i) early.keep_ahead({{}, 7}, node(kStranger), {4, {}, need});
  early.on_view({{}, 7});
  std::uint64_t bytes = 0;
  for (const auto& [from, message] : early.take())
    if (const auto* one = std::get_if<collective::Need>(&message.message))
      bytes += 4 * (one->result_chunks.size() + one->partial_chunks.size());
  EXPECT_LE(bytes, 2u << 20);  // today 250 MiB of a model of 1 GB; 7 GiB of one of 28 GB
}

TEST(HostileEarly, a_view_that_never_comes_does_not_displace_those_that_do) {
  EarlySteps early(100);
  early.keep_ahead({{}, kHuge}, node(kStranger), {4, {}, collective::Need{}});
  early.on_view({{}, 5});
  early.keep_ahead({{}, 6}, node(2), {4, {}, collective::Need{}});
  early.on_view({{}, 6});
  EXPECT_EQ(early.take().size(), 1u) << "each view begins with the silence before a NEED";
}

// --- 8. durability -------------------------------------------------------------------------------------

TEST(HostileReports, a_stranger_does_not_fill_the_log) {
  LoneCore lone;
  const std::size_t before = of<Report>(lone.all()).size();
  for (int i = 0; i < 1000; ++i)
    lone.hear(kStranger, lone.core().view().name(), JoinRefused{"x\n2026 [error] job: forged"});
  EXPECT_LE(of<Report>(lone.all()).size(), before + 10);
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
