// What a voter is shown for a proposal, and what it votes for by that: the view that follows from the
// promises, and no other one.
#include <functional>
#include <optional>

#include <gtest/gtest.h>

#include "tests/support/broken_rules.hpp"
#include "tests/support/twin_proofs.hpp"
#include "tests/unit/runtime/job/at_once_disk.hpp"
#include "tests/unit/runtime/job/proposal_fixture.hpp"

namespace gpunode::job {
namespace {

// Node 1, which votes with nodes 2 and 3; node 2 proposes.
class ProposalRulesTest : public ::testing::Test {
 protected:
  ProposalRulesTest() {
    auto made = JobCore::create(context_options());
    core_.emplace(std::move(*made));
    feed([&](Actions& out) { core_->on_start(now_, out); });
    enter({1, 2, 3}, {1, 2, 3});
  }
  void enter(const std::vector<int>& members, const std::vector<int>& acceptors) {
    view::View view = core_->view();
    ++view.view_id;
    view.members.clear();
    view.acceptors.clear();
    for (const int one : members) view.members.push_back({node(one), 1});
    for (const int one : acceptors) view.acceptors.push_back(node(one));
    view.tie = view.acceptors.front();
    view.plan = {0, 0, 0, 0};
    view.fingerprint = digest(77);
    view.base_step = 5;
    view.floor = {{{}, 4}, {node(2), node(3)}};
    const auto& voters = core_->view().acceptors;
    hear(2, ViewNotice{{view::decided_by(core_->view(), view, voters)}});
    ASSERT_EQ(core_->view().view_id, view.view_id);
  }
  template <class Input>
  Actions feed(Input input) {
    return with_disk(*core_, now_, input);
  }
  Actions hear(int from, JobBody body) {
    return feed([&](Actions& out) {
      core_->on_message(now_, node(from), {{1, 1}, core_->view().name(), 1, std::move(body)}, out);
    });
  }
  ProposalRules rules() const {
    const JobCore::Options options = context_options();
    ProposalRules rules;
    rules.tree = options.tree;
    rules.wanted_nodes = options.wanted_nodes;
    rules.min_nodes = options.min_nodes;
    rules.total_steps = options.total_steps;
    return rules;
  }
  // As a proposer that keeps to the rules has it.
  view::View follows_from(const Promisers& promisers, const view::Hearsay& heard = {},
                          const std::vector<NodeId>& put_out = {}) const {
    ProposalRules by = rules();
    by.put_out = put_out;
    by.witnesses = heard.witnesses;
    auto next = propose_view(by, core_->view(), promisers, heard.joining);
    EXPECT_TRUE(next) << (next ? "" : next.error().detail);
    return next ? *next : view::View{};
  }
  bool votes_for(const view::View& view, const Promisers& shown, const view::Hearsay& heard = {}) {
    const view::Ballot ballot{++round_, node(2)};
    view::Proof proof = view::proof_by(shown, core_->view(), ballot);
    proof.hearsay = heard;
    for (const auto& [to, vote] : sent<Vote>(hear(2, Vote{view::Accept{ballot, view, proof}})))
      if (std::holds_alternative<view::Accepted>(vote.message)) return true;
    return false;
  }
  static view::Promiser restarted(int number, std::uint64_t checkpoint) {
    auto one = at(number, 0, 0);
    one.standing.has_memory = false;
    one.standing.boot = 2;
    one.standing.checkpoint = {{}, checkpoint};
    one.standing.checkpoint_digest = digest(2000 + checkpoint);
    return one;
  }

  std::optional<JobCore> core_;
  std::uint64_t round_ = 0;
  Time now_ = Time{} + 1h;
};

TEST_F(ProposalRulesTest, what_follows_from_the_promises_gets_its_vote) {
  const Promisers all{at(1, 7, 7), at(2, 7, 8), at(3, 7, 7)};
  EXPECT_TRUE(votes_for(follows_from(all), all));
  const Promisers some{at(2, 7, 8), at(3, 7, 7)};
  EXPECT_TRUE(votes_for(follows_from(some), some)) << "the others did not answer";
}

TEST_F(ProposalRulesTest, nothing_of_it_is_the_proposers_to_choose) {
  const Promisers told{at(1, 7, 7), at(2, 7, 7), at(3, 7, 7)};
  const view::View next = follows_from(told);
  const std::vector<std::function<void(view::View&)>> changes = {
      [](view::View& v) { v.members.pop_back(); },
      [](view::View& v) { std::swap(v.members[0], v.members[1]); },
      [](view::View& v) { v.members[1].boot = 2; },
      [](view::View& v) { v.acceptors.pop_back(); },
      [](view::View& v) { v.acceptors.push_back(node(8)); },
      [](view::View& v) { v.tie = node(2); },
      [](view::View& v) { v.base_step = 8; },
      [](view::View& v) { v.base_step = 6; },
      [](view::View& v) { v.state_digest = digest(666); },
      [](view::View& v) { v.result_digest = digest(666); },
      [](view::View& v) {
        v.plan = {0, 0, 0, 1};
      },
      [](view::View& v) { v.paces.push_back(1); },
      [](view::View& v) { ++v.owner_rotation; },
      [](view::View& v) { v.disagreed_step = 7; },
      [](view::View& v) { v.sync_sources = {node(2)}; },
      [](view::View& v) { v.left_out = true; },
      [](view::View& v) { v.floor.name.step = 5; },
      [](view::View& v) { v.floor.holders = {node(2)}; },
      [](view::View& v) { v.met = 5; },
      [](view::View& v) { v.order = ordered(view::OrderKind::resume); },
      [](view::View& v) {
        v.base_step = 4;
        v.restores = true;
        v.turns.push_back({v.view_id, 4, 9, view::Turn::Kind::rollback});
      }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    view::View changed = next;
    changes[i](changed);
    EXPECT_FALSE(votes_for(changed, told)) << i;
  }
  EXPECT_EQ(core_->status(now_).unproven, changes.size());
  EXPECT_TRUE(votes_for(next, told));
}

TEST_F(ProposalRulesTest, nobody_who_promised_is_left_out_without_a_reason) {
  const Promisers all{at(1, 7, 7), at(2, 7, 7), at(3, 7, 7)};
  EXPECT_FALSE(votes_for(follows_from({all[0], all[1]}), all));
  Promisers cut = all;
  cut[1].standing.unreachable = {node(3)};
  EXPECT_TRUE(votes_for(follows_from(cut), cut)) << "they do not reach each other";
  EXPECT_EQ(follows_from(cut).members.size(), 2u);
}

TEST_F(ProposalRulesTest, nobody_goes_back_while_a_promiser_holds_the_state) {
  const Promisers told{restarted(2, 6), restarted(3, 6), at(1, 7, 7)};
  const Promisers without{restarted(2, 6), restarted(3, 6), restarted(1, 0)};
  EXPECT_FALSE(votes_for(follows_from(without), told));
  EXPECT_FALSE(votes_for(follows_from(without), {restarted(2, 6), restarted(3, 6)}))
      << "node 1 has not said that it has nothing";
  EXPECT_TRUE(votes_for(follows_from(told), told));
}

TEST_F(ProposalRulesTest, what_the_proposer_heard_lets_in_whom_the_survivors_reach) {
  enter({1, 2}, {1, 2});
  Promisers told{at(1, 7, 7), at(2, 7, 7)};
  view::Hearsay heard;
  heard.joining = {{{node(8), 1}, true}};
  const view::View bare = follows_from(told);
  view::View with = bare;
  with.members.push_back({node(8), 1});
  EXPECT_FALSE(votes_for(with, told, heard)) << "they do not";
  for (auto& one : told) one.standing.learners = {node(8)};
  const view::View let_in = follows_from(told, heard);
  EXPECT_EQ(let_in.members.size(), 3u);
  EXPECT_TRUE(votes_for(let_in, told, heard));
}

// The member hears nobody, and might go on: whoever has granted it a lease waits until that is over,
// whatever the proposer's clock says.
TEST_F(ProposalRulesTest, who_has_granted_a_lease_votes_for_no_way_back_before_its_end) {
  enter({3}, {3, 1, 2});
  hear(3, LeaseAsk{now_, {{}, 6}, digest(2006)});
  auto own = restarted(1, 6);
  own.standing.lease_left = 3s;
  auto over = own;
  over.standing.lease_left = {};
  const view::View back = follows_from({over, restarted(2, 6)});
  ASSERT_TRUE(back.restores);
  EXPECT_FALSE(votes_for(back, {own, restarted(2, 6)}));
  now_ += 2900ms;
  EXPECT_FALSE(votes_for(back, {own, restarted(2, 6)}));
  now_ += 200ms;
  EXPECT_TRUE(votes_for(back, {own, restarted(2, 6)}));
}

TEST_F(ProposalRulesTest, what_was_ordered_is_carried_out_by_whoever_proposes) {
  Promisers told{at(1, 7, 7), at(2, 7, 7), at(3, 7, 7)};
  const view::View goes_on = follows_from(told);
  told[2].standing.order = ordered(view::OrderKind::stop, 5);
  EXPECT_FALSE(votes_for(goes_on, told));
  EXPECT_TRUE(votes_for(follows_from(told), told));
  told[2].standing.order = view::order_of({1, 1}, node(3), view::OrderKind::stop, 5);
  EXPECT_TRUE(votes_for(goes_on, told)) << "node 3 may order nothing";
  EXPECT_FALSE(votes_for(follows_from(told), told));
}

// Another view beside the one that this node is in: node 3 has voted for both.
TEST_F(ProposalRulesTest, who_was_seen_to_vote_twice_is_put_out_and_nobody_else_is) {
  view::View before;
  before.job = {1, 1};
  for (int i = 1; i <= 3; ++i) before.acceptors.push_back(node(i));
  before.tie = node(1);
  view::View other = core_->view();
  other.owner_rotation = 1;
  view::DecidedView decided{other, {2, node(2)}, before.acceptors, before.tie, {}};
  const view::Claim vote{{1, node(1)}, core_->view()};
  decided.proof.levels = {{decided.ballot,
                           {view::told_by(node(2), before, decided.ballot, {}, vote),
                            view::told_by(node(3), before, decided.ballot)}}};
  for (const int by : {2, 3})
    decided.seals.push_back(
        {node(by), view::TwinSigner(node(by)).sign(view::kVotePurpose, view::vote_bytes(decided))});
  const view::View own = core_->view();
  view::DecidedView bare = decided;
  bare.proof = {};
  Actions out = hear(2, ViewNotice{{bare}});
  EXPECT_TRUE(of<Incident>(out).empty()) << "it shows nothing";
  ASSERT_EQ(of<GiveUpCheckpoints>(out).size(), 1u) << "its disk first";
  EXPECT_EQ(of<GiveUpCheckpoints>(out)[0].after, own.base_step);
  EXPECT_EQ(sent<ViewNotice>(out).size(), 2u) << "the others are shown this side";
  EXPECT_TRUE(hear(2, ViewNotice{{decided}}).empty()) << "a moment ago";
  now_ += 200ms;
  out = hear(2, ViewNotice{{decided}});
  ASSERT_EQ(of<Incident>(out).size(), 1u);
  EXPECT_EQ(of<Incident>(out)[0].event, "voted_twice");
  EXPECT_EQ(of<Incident>(out)[0].node, node(3));
  EXPECT_TRUE(core_->gives_way());
  EXPECT_EQ(core_->view(), own);
  EXPECT_TRUE(of<GiveUpCheckpoints>(hear(2, ViewNotice{{decided}})).empty()) << "was ordered";
  out.clear();
  core_->on_given_up(now_, {}, out);
  EXPECT_FALSE(core_->gives_way());
  ASSERT_EQ(of<Incident>(out).size(), 1u);
  EXPECT_EQ(of<Incident>(out)[0].event, "part_yielded") << "to the view of the higher ballot";
  ASSERT_EQ(core_->view(), other);

  const Promisers all{at(1, 7, 7), at(2, 7, 7), at(3, 7, 7)}, honest{all[0], all[1]};
  EXPECT_FALSE(votes_for(follows_from(all), all)) << "it would have a part yet";
  EXPECT_FALSE(votes_for(follows_from({all[0]}, {}, {node(2), node(3)}), all)) << "of node 2, too";
  const view::View next = follows_from(honest, {}, {node(3)});
  EXPECT_FALSE(next.has_part(node(3)));
  EXPECT_EQ(next.put_out, std::vector{node(3)});
  EXPECT_TRUE(votes_for(next, all));
}

TEST_F(ProposalRulesTest, who_asks_from_beside_this_nodes_view_is_told_it) {
  ViewAsk ask{core_->view().name(), core_->view().digest()};
  EXPECT_TRUE(sent<ViewNotice>(hear(3, ask)).empty());
  ask.digest.low ^= 1;
  const auto told = sent<ViewNotice>(hear(3, ask));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].second.chain.back().view, core_->view());
  EXPECT_TRUE(sent<ViewNotice>(hear(3, ask)).empty()) << "a moment ago";
}

TEST_F(ProposalRulesTest, without_the_rule_a_proposer_would_be_believed) {
  const testing::BreakRule rule("proposals_unproven");
  EXPECT_TRUE(votes_for(follows_from({at(2, 7, 7)}), {at(1, 7, 7), at(2, 7, 7)}));
}

}  // namespace
}  // namespace gpunode::job
