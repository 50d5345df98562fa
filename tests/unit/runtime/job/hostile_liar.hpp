// What liars say to a core: random messages of every kind, many of them plausible.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/block_digest.hpp"
#include "runtime/base/rng.hpp"
#include "tests/support/twin_proofs.hpp"
#include "tests/unit/runtime/job/proposal_fixture.hpp"

namespace gpunode::job {

class Liar {
 protected:
  explicit Liar(std::uint64_t seed) : rng_(seed) {}

  bool chance(std::uint64_t percent) { return rng_.below(100) < percent; }
  std::uint64_t number() {
    if (chance(90)) {
      const std::uint64_t near = core_->committed();
      const std::uint64_t some[] = {0,        1, 2,  near, near + 1,
                                    near + 2, 9, 10, 11,   near > 0 ? near - 1 : 0};
      return some[rng_.below(std::size(some))];
    }
    const std::uint64_t huge[] = {~0ull,      ~0ull - 1,  1ull << 63, (1ull << 63) - 1,
                                  0xffffffff, 1ull << 32, rng_.next()};
    return huge[rng_.below(std::size(huge))];
  }
  NodeId somebody() {
    const int numbers[] = {1, 2, 3, 2, 3, 9};
    return node(numbers[rng_.below(std::size(numbers))]);
  }
  std::vector<NodeId> some_nodes() {
    std::vector<NodeId> nodes;
    for (const int n : {1, 2, 3, 9})
      if (chance(40)) nodes.push_back(node(n));
    return nodes;
  }
  Digest some_digest() {
    switch (rng_.below(7)) {
      case 0:
        return {};
      case 1:
        return core_->state_digest();
      case 2:
        return block_digest_of(blob_);
      case 3:
        return core_->view().state_digest;
      case 4:
        return core_->view().result_digest;
      case 5:
        return digest(77);
      default:
        return digest(1 + rng_.below(3));
    }
  }
  HistoryId history() {
    if (chance(85)) return core_->view().history();
    return {static_cast<std::uint32_t>(number()), number()};
  }
  collective::DataFingerprint data() {
    if (chance(85)) return {{1, 1}, 4};
    return {some_digest(), number()};
  }
  view::CheckpointName checkpoint() { return {history(), number()}; }
  view::Floor floor() { return {checkpoint(), some_nodes()}; }
  std::vector<std::uint64_t> words(std::size_t count) {
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t samples = rng_.below(65536), gradient = rng_.below(65536);
      const std::uint64_t workers = chance(50) ? 1 : rng_.below(65536);
      all.push_back(number() % (1ull << 32) | workers << 32 |
                    (i + 1 == count ? gradient : samples) << 48);
    }
    return all;
  }
  std::vector<std::uint16_t> plan(std::size_t members) {
    std::vector<std::uint16_t> owners;
    for (int slice = 0; slice < 4; ++slice)
      owners.push_back(static_cast<std::uint16_t>(rng_.below(std::max<std::size_t>(members, 1))));
    return owners;
  }
  view::View some_view() {
    view::View next = core_->view();
    next.previous = core_->view().digest();
    next.view_id += chance(85) ? 1 : 2;
    if (chance(1)) next.view_id = number();
    next.fingerprint = chance(95) ? digest(77) : some_digest();
    next.members.clear();
    next.acceptors.clear();
    for (const int n : {1, 2, 3, 9})
      if (chance(n == 1 ? 80 : 60)) next.members.push_back({node(n), chance(95) ? 1 : number()});
    if (next.members.empty()) next.members = {{node(2), 1}};
    for (const view::Member& one : next.members)
      if (chance(80)) next.acceptors.push_back(one.node);
    for (const int n : {1, 2, 3, 9})
      if (!next.rank_of(node(n)) && chance(40)) next.acceptors.push_back(node(n));
    if (next.acceptors.empty()) next.acceptors = {next.members.front().node};
    next.tie = next.acceptors[rng_.below(next.acceptors.size())];
    next.plan = plan(next.members.size());
    next.base_step = chance(60) ? core_->committed() : std::min<std::uint64_t>(number(), 12);
    next.restores = chance(25);
    next.stopped = chance(8);
    if (chance(20)) next.order = some_order();
    next.left_out = chance(20);
    next.state_digest = some_digest();
    next.result_digest = chance(50) ? Digest{} : some_digest();
    next.owner_rotation = static_cast<std::uint32_t>(number());
    next.sync_sources = some_nodes();
    next.paces = words(next.members.size() + 1);
    next.floor = floor();
    next.met = chance(80) ? 0 : number();
    next.disagreed_step = number();
    if (chance(15))
      next.turns.push_back({next.view_id, std::min(next.base_step, core_->committed()),
                            1 + rng_.below(5), static_cast<view::Turn::Kind>(rng_.below(3))});
    return next;
  }
  // By whoever; some by who may.
  view::SignedOrder some_order() {
    view::SignedOrder order = view::order_of({1, 1}, chance(50) ? node(kOwner) : somebody(),
                                             static_cast<view::OrderKind>(1 + rng_.below(5)),
                                             static_cast<std::int64_t>(number() >> 2), number());
    if (chance(30)) order.by = node(kOwner);
    return order;
  }
  view::Standing standing() {
    view::Standing where;
    where.boot = chance(90) ? 1 : number();
    where.has_memory = chance(70);
    where.leaving = chance(10);
    where.finished = chance(5);
    where.applied = number();
    where.held = where.applied + (where.applied < ~0ull && chance(30) ? 1 : 0);
    where.state_digest = some_digest();
    where.applied_result_digest = some_digest();
    where.held_result_digest = some_digest();
    where.fingerprint = chance(90) ? digest(77) : some_digest();
    where.checkpoint = checkpoint();
    where.checkpoint_digest = some_digest();
    if (chance(20)) where.unreachable = some_nodes();
    if (chance(15)) where.order = some_order();
    where.plan = plan(core_->view().members.size());
    where.paces = words(core_->view().members.size() + 1);
    where.learners = some_nodes();
    where.floor = floor();
    where.lease_left = Duration(static_cast<std::int64_t>(rng_.below(60'000'000'000)));
    where.met = chance(90) ? 0 : number();
    return where;
  }
  view::Ballot ballot(const NodeId& from) {
    return {chance(95) ? 1 + rng_.below(6) : number(), from};
  }
  // What the core asks for, under this node's signature; now and then under a wrong one.
  view::Accepted accepted(const NodeId& from) {
    const Bytes vote = view::vote_bytes(ballot_, core_->view(), asked_);
    const NodeId signer = chance(90) ? from : somebody();
    return {ballot_, view::TwinSigner(signer).sign(view::kVotePurpose, vote)};
  }
  // Proven, now and then: by what all promise, or say to have accepted.
  view::AcceptedView some_accepted(const NodeId& from) {
    view::AcceptedView accepted{ballot(from), some_view()};
    Promisers told;
    for (const int n : {1, 2, 3})
      if (chance(80)) told.push_back({node(n), standing()});
    accepted.proof = view::proof_by(told, core_->view(), accepted.ballot);
    accepted.proof.hearsay.witnesses = some_nodes();
    for (const NodeId& node : some_nodes())
      accepted.proof.hearsay.joining.push_back(
          {{node, 1}, chance(50), checkpoint(), some_digest(), chance(50)});
    if (chance(20))
      accepted.proof.levels.insert(
          accepted.proof.levels.begin(),
          {accepted.ballot,
           {view::told_by(node(2), core_->view(), accepted.ballot, standing(),
                          view::Claim{ballot(from), accepted.view})}});
    ProposalRules rules = rules_of(3, 10);
    rules.tree = collective::Tree::of_slices(4);
    rules.witnesses = accepted.proof.hearsay.witnesses;
    auto follows = propose_view(rules, core_->view(), told, accepted.proof.hearsay.joining);
    if (follows && chance(80)) accepted.view = std::move(*follows);
    return accepted;
  }
  JobBody vote(const NodeId& from) {
    switch (rng_.below(11)) {
      case 0:
        return Vote{view::Prepare{ballot(from), chance(20) ? "why" : ""}};
      case 1:
      case 2:
      case 3: {
        std::optional<view::AcceptedView> accepted;
        if (chance(15)) accepted = some_accepted(from);
        return Vote{view::promised_by(chance(95) ? from : somebody(), core_->view(), ballot_,
                                      standing(), std::move(accepted))};
      }
      case 4:
        return Vote{view::Refuse{{1 + rng_.below(6), somebody()}}};
      case 5: {
        view::AcceptedView asked = some_accepted(from);
        return Vote{view::Accept{asked.ballot, std::move(asked.view), std::move(asked.proof)}};
      }
      case 6:
        return Vote{accepted(from)};
      case 7:
        return Vote{view::Probe{rng_.next()}};
      case 8:
        return Vote{view::Echo{nonce_}};
      case 9:
        return Vote{view::NoteFloor{floor()}};
      default:
        return Vote{view::FloorNoted{checkpoint()}};
    }
  }
  collective::TreeNode tree_node() {
    if (chance(3))
      return {static_cast<std::uint8_t>(rng_.below(256)), static_cast<std::uint32_t>(rng_.next())};
    return {static_cast<std::uint8_t>(rng_.below(3)), static_cast<std::uint32_t>(rng_.below(4))};
  }
  SharedBytes floats() {
    const std::size_t size = chance(90) ? 32 : rng_.below(70);
    Bytes bytes(size);
    for (std::byte& one : bytes) one = static_cast<std::byte>(chance(50) ? 0 : rng_.below(256));
    return SharedBytes::from(std::move(bytes));
  }
  collective::StepTimes times() {
    collective::StepTimes told;
    told.compute = {static_cast<std::uint32_t>(number()), static_cast<std::uint32_t>(number()),
                    static_cast<std::uint16_t>(chance(70) ? 1 : rng_.next()),
                    static_cast<std::uint16_t>(chance(70) ? 1 : rng_.next())};
    told.gather_us = static_cast<std::uint32_t>(number());
    told.last_rank = static_cast<std::uint16_t>(rng_.next());
    told.site = rng_.below(3);
    return told;
  }
  JobBody step() {
    collective::ExchangeMessage message;
    switch (rng_.below(4)) {
      case 0:
        message = collective::PartialChunk{chance(95) ? 0 : 5u, tree_node(), data(), floats()};
        break;
      case 1:
        message = collective::ResultChunk{chance(95) ? 0 : 5u, data(), floats()};
        break;
      case 2:
        message = done_ && chance(70)
                      ? collective::Done{done_->result, done_->data_fingerprint, times()}
                      : collective::Done{some_digest(), data(), times()};
        break;
      default:
        message = collective::Need{{0}, {0}, true};
    }
    return StepMessage{chance(85) ? core_->committed() + 1 : number(),
                       chance(97) ? plan_ : Digest{}, message};
  }
  JobBody body(const NodeId& from) {
    switch (rng_.below(24)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return step();
      case 5:
      case 6:
      case 7:
      case 8:
        return vote(from);
      case 9:
        return chance(50) ? JobBody{FreezeHint{"r", some_nodes()}} : JobBody{ViewAsk{}};
      case 10:
      case 11: {
        std::vector<NodeId> by = core_->view().acceptors;
        if (chance(20)) by = some_nodes();
        return ViewNotice{{view::decided_by(core_->view(), some_view(), by)}};
      }
      case 12:
        return ViewAsk{};
      case 13: {
        JoinAsk ask{chance(90) ? digest(77) : some_digest(),
                    chance(50),
                    number(),
                    chance(60),
                    number(),
                    some_nodes()};
        ask.checkpoint = checkpoint();
        ask.checkpoint_digest = some_digest();
        return ask;
      }
      case 14:
        return JoinRefused{"no"};
      case 15:
        return StepStatus{number(), chance(70), chance(30), number(), some_digest()};
      case 16:
        return StateAsk{number(), some_digest()};
      case 17:
        return StateMeta{number(), chance(85) ? blob_.size() : number(), some_digest(),
                         some_digest(), data()};
      case 18:
        return StateRead{some_digest(), number(), static_cast<std::uint32_t>(number())};
      case 19: {
        const std::uint64_t offset = chance(90) ? 16 * rng_.below(2) : number();
        Bytes part(chance(90) ? (offset == 16 ? 4 : 16) : rng_.below(40), std::byte{7});
        return StatePart{chance(80) ? block_digest_of(blob_) : some_digest(), offset,
                         SharedBytes::from(std::move(part))};
      }
      case 20:
        return WitnessOffer{chance(10)};
      case 21:
        return ResultRead{number(), number(), static_cast<std::uint32_t>(number())};
      case 22: {
        Bytes part(chance(90) ? 16 : rng_.below(40), std::byte{0});
        return ResultPart{number(), chance(90) ? 16 * rng_.below(2) : number(), some_digest(),
                          data(), SharedBytes::from(std::move(part))};
      }
      default:
        if (chance(50))
          return LeaseAsk{Time{} + Duration(static_cast<std::int64_t>(number())), checkpoint(),
                          some_digest()};
        return LeaseGrant{
            chance(80) ? now_ : Time{} + Duration(static_cast<std::int64_t>(number())), chance(80),
            chance(80), checkpoint()};
    }
  }

  const Bytes blob_ = Bytes(20, std::byte{7});
  Rng rng_;
  std::optional<JobCore> core_;  // to which it is said
  Time now_ = Time{} + 1h;
  // What the core has said last, for answers that fit.
  Digest plan_;
  std::optional<collective::Done> done_;
  view::Ballot ballot_;
  view::View asked_;
  std::uint64_t nonce_ = 0;
};

}  // namespace gpunode::job
