#include "runtime/job/job_codec.hpp"

#include <gtest/gtest.h>

#include "runtime/base/rng.hpp"
#include "tests/support/ids.hpp"
#include "tests/support/twin_orders.hpp"
#include "tests/support/twin_signer.hpp"

namespace gpunode::job {
namespace {

constexpr std::uint64_t kElements = 100;
const JobId kJob{3, 4};

view::View some_view() {
  view::View view;
  view.job = kJob;
  view.view_id = 8;
  view.members = {{node(1), 3}, {node(2), 4}};
  view.acceptors = {node(1), node(2)};
  view.tie = node(2);
  view.plan = {0, 1, 1, 0};
  view.base_step = 33;
  view.sync_sources = {node(1)};
  view.turns = {{5, 20, 66, view::Turn::Kind::rollback}, {7, 30, 77, view::Turn::Kind::split}};
  view.floor = {{{1, 66}, 25}, {node(2)}};
  return view;
}

view::DecidedView decided(view::View view) {
  view::View before;
  before.acceptors = {node(1), node(2), node(3)};
  before.tie = node(1);
  return view::decided_by(before, std::move(view), {node(1), node(3)});
}

JobMessage framed(JobBody body) {
  return {kJob, {{2, 6}, 7}, 5, std::move(body)};
}

// Body of the same message after a trip over the wire.
template <class T>
T back(T body) {
  const collective::EncodedMessage wire = encode_message(framed(JobBody{body}));
  auto decoded = decode_message(wire.body, wire.payload, kJob, kElements);
  EXPECT_TRUE(decoded) << decoded.error().message();
  EXPECT_EQ(decoded->view, (view::ViewName{{2, 6}, 7}));
  return std::get<T>(decoded->body);
}

std::vector<JobMessage> all_kinds() {
  view::Standing standing;
  standing.boot = 9;
  standing.applied = 32;
  standing.held = 33;
  standing.unreachable = {node(3)};
  std::vector<JobMessage> all;
  all.push_back(framed(Vote{view::Prepare{{3, node(1)}}}));
  all.push_back(framed(
      Vote{view::Promise{{3, node(1)}, view::AcceptedView{{2, node(2)}, some_view()}, standing}}));
  all.push_back(framed(Vote{view::Refuse{{3, node(1)}}}));
  all.push_back(framed(Vote{view::Accept{{3, node(1)}, some_view()}}));
  all.push_back(
      framed(Vote{view::Accepted{{3, node(1)}, decided(some_view()).seals[0].signature}}));
  all.push_back(framed(Vote{view::NoteFloor{{{{1, 5}, 20}, {node(1), node(2)}}}}));
  all.push_back(framed(Vote{view::FloorNoted{{{1, 5}, 20}}}));
  all.push_back(framed(FreezeHint{"why", {node(1)}}));
  all.push_back(framed(ViewNotice{{decided(some_view())}}));
  all.push_back(framed(ViewAsk{}));
  all.push_back(framed(JoinAsk{{1, 2}, false, 77, false, 0, {}}));
  all.push_back(framed(JoinRefused{"no"}));
  all.push_back(framed(StepStatus{5, true, true}));
  all.push_back(framed(StateAsk{5}));
  all.push_back(framed(StateMeta{5, 6, {1, 1}, {2, 2}, {{3, 3}, 4}}));
  all.push_back(framed(StateRead{{5, 5}, 6, 7}));
  all.push_back(framed(StatePart{{5, 5}, 6, SharedBytes::from(Bytes(10))}));
  all.push_back(framed(StepMessage{5, {1, 2}, collective::Done{{1, 1}, {}, {}}}));
  all.push_back(framed(ResultRead{5, 6, 7}));
  all.push_back(framed(LeaseAsk{Time(Duration(7)), {{1, 5}, 40}, {8, 9}}));
  all.push_back(framed(LeaseGrant{Time(Duration(7)), true, true, {{1, 5}, 40}}));
  all.push_back(framed(GroupInvite{Bytes(100)}));
  all.push_back(framed(ResultPart{5, 6, {1, 1}, {{3, 3}, 4}, SharedBytes::from(Bytes(10))}));
  all.push_back(framed(StepMessage{5, {1, 2}, collective::Need{{0}, {}, true}}));
  return all;
}

TEST(JobCodec, votes_come_back_whole) {
  view::Standing standing;
  standing.boot = 9;
  standing.has_memory = true;
  standing.applied = 32;
  standing.held = 33;
  standing.held_result_digest = {7, 8};
  standing.checkpoint = {{1, 5}, 30};
  standing.checkpoint_digest = {3, 4};
  standing.floor = {{{1, 5}, 20}, {node(1), node(3)}};
  standing.order = view::order_of({1, 1}, node(1), view::OrderKind::resume_from, 3, 20);
  standing.met = 77;
  standing.unreachable = {node(3)};
  standing.learners = {node(4)};
  const view::Promise promise{
      {3, node(1)}, view::AcceptedView{{2, node(2)}, some_view()}, standing};
  const auto vote = back(Vote{promise});
  const auto& same = std::get<view::Promise>(vote.message);
  EXPECT_EQ(same.ballot, promise.ballot);
  EXPECT_EQ(same.accepted, promise.accepted);
  EXPECT_EQ(same.standing, promise.standing);
  EXPECT_EQ(same.signature, promise.signature);
  const auto bare = back(Vote{view::Promise{{3, node(1)}, {}, standing}});
  EXPECT_FALSE(std::get<view::Promise>(bare.message).accepted);
}

TEST(JobCodec, views_and_states_come_back_whole) {
  const view::ViewChain chain{decided(some_view()), decided(some_view())};
  EXPECT_EQ(back(ViewNotice{chain}).chain, chain);
  EXPECT_EQ(back(ViewAsk{{{1, 5}, 7}}).proven, (view::ViewName{{1, 5}, 7}));
  EXPECT_EQ(back(ViewAsk{{{1, 5}, 7}, {3, 4}}).digest, (Digest{3, 4}));
  const auto meta = back(StateMeta{5, 6, {1, 1}, {2, 2}, {{3, 3}, 4}});
  EXPECT_EQ(meta.size_bytes, 6u);
  EXPECT_EQ(meta.data_fingerprint.sample_count, 4u);
  const auto part = back(StatePart{{5, 5}, 6, SharedBytes::from(Bytes(10, std::byte{1}))});
  EXPECT_EQ(part.payload.size(), 10u);
  const auto status = back(StepStatus{5, true, true, 3, {4, 4}});
  EXPECT_TRUE(status.finished);
  EXPECT_EQ(status.results_from, 3u);
  EXPECT_EQ(status.result, (Digest{4, 4}));
  const auto ask = back(JoinAsk{{1, 2}, false, 77, true, 12, {node(3)}, {{2, 5}, 40}, {8, 9}});
  EXPECT_EQ(ask.received_bytes, 77u);
  EXPECT_TRUE(ask.ready);
  EXPECT_EQ(ask.step, 12u);
  EXPECT_EQ(ask.heard, std::vector<NodeId>{node(3)});
  EXPECT_EQ(ask.checkpoint, (view::CheckpointName{{2, 5}, 40}));
  EXPECT_EQ(ask.checkpoint_digest, (Digest{8, 9}));
  const auto lease = back(LeaseAsk{Time(Duration(7)), {{1, 5}, 40}, {8, 9}});
  EXPECT_EQ(lease.asked, Time(Duration(7)));
  EXPECT_EQ(lease.checkpoint, (view::CheckpointName{{1, 5}, 40}));
  EXPECT_EQ(lease.digest, (Digest{8, 9}));
  const auto grant = back(LeaseGrant{Time(Duration(7)), true, true, {{1, 5}, 40}});
  EXPECT_EQ(grant.asked, Time(Duration(7)));
  EXPECT_TRUE(grant.granted && grant.keeps_copies);
  EXPECT_EQ(grant.checkpoint, (view::CheckpointName{{1, 5}, 40}));
  const auto result = back(ResultPart{5, 6, {1, 1}, {{3, 3}, 4}, SharedBytes::from(Bytes(10))});
  EXPECT_EQ(result.digest, (Digest{1, 1}));
  EXPECT_EQ(result.data_fingerprint.sample_count, 4u);
  EXPECT_EQ(result.payload.size(), 10u);
  EXPECT_EQ(back(ResultRead{5, 6, 7}).length, 7u);
}

TEST(JobCodec, a_floor_comes_back_whole) {
  const view::Floor floor{{{1, 5}, 20}, {node(1), node(2)}};
  EXPECT_EQ(std::get<view::NoteFloor>(back(Vote{view::NoteFloor{floor}}).message).floor, floor);
  const auto noted = back(Vote{view::FloorNoted{floor.name}});
  EXPECT_EQ(std::get<view::FloorNoted>(noted.message).name, floor.name);
}

TEST(JobCodec, a_view_that_makes_no_sense_is_refused) {
  const auto refused = [](auto spoil) {
    view::View view = some_view();
    spoil(view);
    const collective::EncodedMessage wire = encode_message(framed(ViewNotice{{decided(view)}}));
    return !decode_message(wire.body, {}, kJob, kElements);
  };
  EXPECT_TRUE(refused([](view::View& v) { v.plan[0] = 2; }));
  EXPECT_TRUE(refused([](view::View& v) { v.acceptors.clear(); }));
  EXPECT_TRUE(refused([](view::View& v) { v.tie = node(9); }));
  EXPECT_TRUE(refused([](view::View& v) { v.members[1] = v.members[0]; }));
  EXPECT_TRUE(refused([](view::View& v) { v.members.clear(), v.plan.clear(); }));
  EXPECT_TRUE(refused([](view::View& v) { v.plan.assign(5000, 0); }));
  EXPECT_FALSE(refused([](view::View&) {}));
}

TEST(JobCodec, another_job_and_a_misplaced_payload_are_refused) {
  const collective::EncodedMessage wire = encode_message(framed(ViewAsk{}));
  EXPECT_FALSE(decode_message(wire.body, {}, JobId{9, 9}, kElements));
  EXPECT_FALSE(decode_message(wire.body, SharedBytes::from(Bytes(3)), kJob, kElements));
}

TEST(JobCodec, garbage_and_cut_frames_are_refused_without_harm) {
  Rng rng(5);
  for (const JobMessage& message : all_kinds()) {
    const collective::EncodedMessage wire = encode_message(message);
    ASSERT_TRUE(decode_message(wire.body, wire.payload, kJob, kElements));
    for (std::size_t length = 0; length < wire.body.size(); ++length)
      (void)decode_message(ByteView(wire.body).first(length), wire.payload, kJob, kElements);
    for (int round = 0; round < 2000; ++round) {
      Bytes bad = wire.body;
      for (std::uint64_t flips = 1 + rng.below(4); flips > 0; --flips)
        bad[rng.below(bad.size())] = static_cast<std::byte>(rng.next());
      auto decoded = decode_message(bad, wire.payload, kJob, kElements);
      if (decoded) (void)encode_message(*decoded);
    }
  }
}

}  // namespace
}  // namespace gpunode::job
