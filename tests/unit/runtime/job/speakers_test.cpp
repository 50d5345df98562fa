// The table of who may say what, walked: each kind of message, by each kind of node.
#include "runtime/job/speakers.hpp"

#include <optional>

#include <gtest/gtest.h>

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

constexpr int kMember = 2, kLearner = 3, kWitness = 4, kFormer = 5, kSource = 6, kStranger = 9;

// Which of them a message of this kind is heard from.
std::vector<int> heard_from(Speaker speaker) {
  switch (speaker) {
    case Speaker::anyone:
      return {kMember, kLearner, kWitness, kFormer, kSource, kStranger};
    case Speaker::asker:
    case Speaker::partner:
      return {kMember, kLearner, kWitness, kFormer, kSource};
    case Speaker::part:
      return {kMember, kLearner, kWitness};
    case Speaker::member:
      return {kMember, kLearner};
    case Speaker::voter:
      return {kMember, kWitness};
  }
  return {};
}

// Node 1, in a view that one computes and votes in, one computes, one votes, one has left and one
// is to give the state.
struct Listener {
  Listener() {
    JobCore::Options options = context_options();
    options.candidates = {node(1), node(kMember), node(kFormer)};
    auto made = JobCore::create(std::move(options));
    core.emplace(std::move(*made));
    Actions out;
    core->on_start(now, out);
    view::View view = core->view();
    ++view.view_id;
    view.members = {{node(1), 1}, {node(kMember), 1}, {node(kLearner), 1}};
    view.acceptors = {node(1), node(kMember), node(kWitness)};
    view.sync_sources = {node(kSource)};
    view.plan = {0, 0, 1, 2};
    view.fingerprint = digest(77);
    core->on_message(now, node(kMember),
                     {{1, 1},
                      view.name(),
                      1,
                      ViewNotice{{view::decided_by(core->view(), view, {node(1), node(kMember)})}}},
                     out);
    EXPECT_EQ(core->view().view_id, 1u);
  }

  bool hears(int from, JobBody body, std::uint64_t view_id = 1) {
    const std::uint64_t before = core->status(now).unheard;
    Actions out;
    core->on_message(now, node(from), {{1, 1}, {{}, view_id}, 1, std::move(body)}, out);
    return core->status(now).unheard == before;
  }
  std::optional<JobCore> core;
  Time now = Time{} + 1h;
};

void expect_heard(const JobBody& body, const std::string& kind) {
  const std::vector<int> speakers = heard_from(speaker_of(body));
  for (const int from : {kMember, kLearner, kWitness, kFormer, kSource, kStranger}) {
    const bool may = std::find(speakers.begin(), speakers.end(), from) != speakers.end();
    Listener listener;  // what one has said is no matter of the next
    EXPECT_EQ(listener.hears(from, body), may) << kind << " of node " << from;
  }
}

template <std::size_t... kind>
std::vector<JobBody> one_of_each(std::index_sequence<kind...>) {
  return {JobBody(std::in_place_index<kind>)...};
}
template <std::size_t... kind>
std::vector<JobBody> one_vote_of_each(std::index_sequence<kind...>) {
  return {JobBody(Vote{view::VoteMessage(std::in_place_index<kind>)})...};
}

TEST(Speakers, each_kind_of_message_is_heard_from_those_that_may_say_it) {
  const auto kinds = one_of_each(std::make_index_sequence<std::variant_size_v<JobBody>>());
  for (const JobBody& body : kinds) expect_heard(body, "message " + std::to_string(body.index()));
}

TEST(Speakers, each_kind_of_vote_is_heard_from_those_that_may_give_it) {
  const auto kinds =
      one_vote_of_each(std::make_index_sequence<std::variant_size_v<view::VoteMessage>>());
  for (const JobBody& body : kinds)
    expect_heard(body, "vote " + std::to_string(std::get<Vote>(body).message.index()));
}

TEST(Speakers, of_a_view_that_is_not_known_here_who_had_a_part_is_heard) {
  Listener listener;
  EXPECT_TRUE(listener.hears(kFormer, StepMessage{}, 2));
  EXPECT_FALSE(listener.hears(kStranger, StepMessage{}, 2));
  EXPECT_FALSE(listener.hears(kStranger, StepStatus{}, 0));
}

TEST(Speakers, a_stranger_is_heard_once_it_asks_to_come_in) {
  Listener listener;
  EXPECT_FALSE(listener.hears(kStranger, StateAsk{}));
  JoinAsk ask;
  ask.fingerprint = digest(77);
  EXPECT_TRUE(listener.hears(kStranger, ask));
  EXPECT_TRUE(listener.hears(kStranger, StateAsk{}));
  EXPECT_TRUE(listener.hears(kStranger, StepMessage{}, 2)) << "the next view may name it";
  EXPECT_FALSE(listener.hears(kStranger, StepStatus{})) << "it has no part yet";
  listener.now += 10s;
  EXPECT_FALSE(listener.hears(kStranger, StateAsk{})) << "it asks no longer";
}

TEST(Speakers, a_newer_view_is_asked_for_whoever_speaks_of_it) {
  Listener listener;
  Actions out;
  listener.core->on_message(listener.now, node(kStranger), {{1, 1}, {{}, 7}, 1, StepStatus{}}, out);
  EXPECT_EQ(receivers<ViewAsk>(out), std::vector{node(kStranger)});
}

}  // namespace
}  // namespace gpunode::job
