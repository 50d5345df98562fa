// Who votes against the rules is exposed by what it signed, and nobody else ever is: by hand, and in
// agreements of many seeds over links that lose, repeat and hold up, with restarts.
#include "runtime/view/double_vote.hpp"

#include <deque>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "runtime/view/view_agreement.hpp"
#include "tests/support/broken_rules.hpp"
#include "tests/support/ids.hpp"
#include "tests/support/twin_proofs.hpp"

namespace gpunode::view {
namespace {

using namespace std::chrono_literals;

const TwinSigner kSigner(node(99));

View first_of(int acceptors) {
  View first;
  first.job = {3, 3};
  for (int i = 1; i <= acceptors; ++i) first.acceptors.push_back(node(i));
  first.tie = node(1);
  return first;
}

// Messages between acceptors; those of one number may live twice, apart from each other.
class Agreements {
 public:
  // `of` acceptors in `first`; the last lives twice where `twice`.
  Agreements(int of, bool twice, std::uint64_t seed) : first_(first_of(of)), rng_(seed) {
    for (int i = 1; i <= of; ++i) add(i, twice && i > (of - 1) / 2 && i < of ? 1 : 0);
    if (twice) add(of, 1);
    apart_ = twice;
  }

  // Until it is over in every part, or for a minute.
  void run() {
    const Time end = now_ + 60s;
    for (auto& one : lives_) one.agreement->want_change(now_);
    while (now_ < end && !is_over()) {
      now_ += 20ms;
      for (std::size_t i = 0; i < lives_.size(); ++i) {
        if (rng_.chance(0.003)) restart(i);
        feed(i, [&](ViewAgreement& one, auto& out) { one.on_tick(now_, out); });
        if (rng_.chance(0.01)) lives_[i].agreement->want_change(now_);
      }
      deliver();
    }
  }
  const std::vector<DecidedView>& decided() const { return decided_; }
  const View& first() const { return first_; }
  const std::vector<Level>& all_promises() const { return promises_; }
  // All that was asked for in some ballot, with all votes for it and every promise ever given.
  const std::map<Ballot, DecidedView>& asked() const { return asked_; }

 private:
  struct Life {
    int number = 0;
    int part = 0;
    std::unique_ptr<ViewAgreement> agreement;
    Bytes disk;
    std::vector<std::pair<std::uint64_t, Bytes>> writes;
  };
  struct Wire {
    Time at;
    std::size_t to;
    NodeId from;
    VoteMessage message;
  };

  void add(int number, int part) {
    lives_.push_back({number, part, nullptr, encode_votes({first_, {}, {}, {}, {}}), {}});
    start(lives_.size() - 1);
  }
  void start(std::size_t index) {
    Life& life = lives_[index];
    ViewAgreement::Options options;
    options.self = node(life.number);
    options.votes = std::move(*decode_votes(life.disk));
    options.trust = {first_, std::make_shared<TwinSigner>(options.self), false, {}};
    options.seed = rng_.next();
    options.hear = [](const auto&) { return Hearsay{}; };
    options.follows = [](const auto&, const auto&, const View&, bool) { return true; };
    options.compose = [this](const auto& promisers, const Hearsay&, bool) {
      View next = first_;
      next.view_id = 1;
      next.previous = first_.digest();
      next.base_step = rng_.below(1000);  // another one each time
      for (const auto& one : promisers) next.members.push_back({one.node, 1});
      return Result<View>(next);
    };
    options.freeze = [] { return Standing{}; };
    options.suspected = [this](const NodeId&) { return rng_.chance(0.5); };
    life.agreement = std::make_unique<ViewAgreement>(std::move(options));
    life.writes.clear();
  }
  void restart(std::size_t index) {
    start(index);
    lives_[index].agreement->want_change(now_);
  }
  bool is_over() const { return decided_.size() >= (apart_ ? 2u : 1u) && rounds_after_-- == 0; }

  void feed(std::size_t index,
            const std::function<void(ViewAgreement&, ViewAgreement::Effects&)>& input) {
    ViewAgreement::Effects out;
    input(*lives_[index].agreement, out);
    carry_out(index, out);
    Life& life = lives_[index];
    if (life.writes.empty() || rng_.chance(0.3)) return;
    const auto [token, bytes] = life.writes.back();
    life.disk = bytes;
    life.writes.clear();
    ViewAgreement::Effects after;
    life.agreement->on_persisted(now_, token, after);
    carry_out(index, after);
  }
  void carry_out(std::size_t index, ViewAgreement::Effects& out) {
    Life& life = lives_[index];
    for (auto& write : out.persists) life.writes.push_back(std::move(write));
    if (out.decided && decided_in_.insert(life.part).second) {
      decided_.push_back(*out.decided);
      // What all of its voters know who have it from the proposer.
      for (const Life& one : lives_)
        if (const auto& known = one.agreement->votes().accepted;
            known && one.part == life.part && known->view == out.decided->view)
          keep_levels(decided_.back().proof, known->proof);
    }
    for (auto& [to, message] : out.sends) {
      overhear(node(life.number), message);
      for (std::size_t other = 0; other < lives_.size(); ++other) {
        if (node(lives_[other].number) != to || (apart_ && lives_[other].part != life.part))
          continue;
        for (int copy = 0; copy < (rng_.chance(0.1) ? 2 : 1); ++copy)
          if (rng_.chance(0.85))
            wires_.push_back({now_ + Duration(static_cast<std::int64_t>(rng_.below(150'000'000))),
                              other, node(life.number), message});
      }
    }
  }
  void deliver() {
    std::vector<Wire> due;
    std::erase_if(wires_, [&](Wire& one) {
      if (one.at > now_) return false;
      due.push_back(std::move(one));
      return true;
    });
    for (const Wire& one : due)
      feed(one.to,
           [&](ViewAgreement& to, auto& out) { to.on_message(now_, one.from, one.message, out); });
  }
  void overhear(const NodeId& from, const VoteMessage& message) {
    if (const auto* promise = std::get_if<Promise>(&message))
      promises_.push_back(
          {promise->ballot, {{from, promise->claim(), promise->standing, promise->signature}}});
    if (const auto* asked = std::get_if<Accept>(&message))
      asked_.try_emplace(asked->ballot,
                         DecidedView{asked->view, asked->ballot, first_.acceptors, first_.tie, {}});
    if (const auto* accepted = std::get_if<Accepted>(&message))
      asked_.at(accepted->ballot).seals.push_back({from, accepted->signature});
  }

  View first_;
  Rng rng_;
  Time now_{};
  bool apart_ = false;
  mutable int rounds_after_ = 100;
  std::vector<Life> lives_;
  std::vector<Wire> wires_;
  std::vector<DecidedView> decided_;
  std::set<int> decided_in_;
  std::map<Ballot, DecidedView> asked_;
  std::vector<Level> promises_;
};

TEST(DoubleVote, nobody_honest_is_ever_exposed) {
  std::size_t pairs = 0, promises = 0, decided = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Agreements world(3 + static_cast<int>(seed % 3), false, seed);
    world.run();
    std::vector<DecidedView> all;
    for (const auto& [ballot, asked] : world.asked()) all.push_back(asked);
    for (DecidedView& one : all) one.proof.levels = world.all_promises();
    for (const DecidedView& one : all)
      for (const DecidedView& other : all) {
        const auto found = exposed_by(kSigner, {world.first(), one, other});
        EXPECT_TRUE(found.empty()) << "seed " << seed;
        ++pairs;
      }
    promises += world.all_promises().size();
    decided += world.decided().size();
  }
  EXPECT_GT(pairs, 300u);
  EXPECT_GT(promises, 1000u);
  EXPECT_GT(decided, 95u);
}

TEST(DoubleVote, who_lives_in_both_halves_of_a_partition_is_exposed_and_alone) {
  std::size_t met = 0, unnamed = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const int of = seed % 2 ? 3 : 5;
    Agreements world(of, true, seed);
    world.run();
    if (world.decided().size() < 2) continue;
    const DecidedView &one = world.decided()[0], &other = world.decided()[1];
    if (one.view == other.view) continue;
    ++met;
    const Trust trust{world.first(), std::make_shared<TwinSigner>(node(1)), false, {}};
    const auto fork = fork_of(trust, {one}, {other});
    ASSERT_TRUE(fork) << "seed " << seed;
    const auto found = exposed_by(kSigner, *fork);
    EXPECT_EQ(found, exposed_by(kSigner, *fork_of(trust, {other}, {one})));
    if (found.empty()) {
      EXPECT_GE(std::max(one.proof.left_out.size(), other.proof.left_out.size()), 16u)
          << "seed " << seed << ": fewer ballots than are kept";
      ++unnamed;
      continue;
    }
    EXPECT_EQ(found, std::vector{node(of)}) << "seed " << seed;
  }
  EXPECT_GT(met, 150u);
  EXPECT_LT(unnamed * 10, met);
}

class ForkTest : public ::testing::Test {
 protected:
  ForkTest() {
    one_ = decided({node(1), node(3)}, 1);
    other_ = decided({node(2), node(3)}, 2);
  }
  // By the promises and votes of these, in a ballot of that round.
  DecidedView decided(const std::vector<NodeId>& by, std::uint64_t round) const {
    View next = first_;
    next.view_id = 1;
    next.previous = first_.digest();
    for (const NodeId& node : by) next.members.push_back({node, 1});
    DecidedView made{next, {round, by[0]}, first_.acceptors, first_.tie, {}};
    std::vector<Promiser> promisers;
    for (const NodeId& node : by) promisers.push_back({node, {}});
    made.proof = proof_by(promisers, first_, made.ballot);
    for (const NodeId& node : by)
      made.seals.push_back({node, TwinSigner(node).sign(kVotePurpose, vote_bytes(made))});
    return made;
  }
  std::vector<NodeId> exposed() const { return exposed_by(kSigner, {first_, one_, other_}); }

  View first_ = first_of(3);
  Trust trust_{first_, std::make_shared<TwinSigner>(node(1)), false, {}};
  DecidedView one_, other_;
};

TEST_F(ForkTest, who_promises_without_a_word_of_its_vote_is_exposed) {
  EXPECT_EQ(exposed(), std::vector{node(3)});
}

TEST_F(ForkTest, it_takes_its_signature_under_both) {
  const auto refused = [this](auto spoil) {
    const DecidedView one = one_, other = other_;
    spoil();
    const bool found = !exposed().empty();
    one_ = one, other_ = other;
    return !found;
  };
  EXPECT_FALSE(refused([] {}));
  EXPECT_TRUE(refused([this] { one_.seals[1].signature[3] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([this] { one_.view.base_step = 1; }));
  EXPECT_TRUE(refused([this] { other_.proof.levels[0].promises[1].signature[3] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([this] { other_.proof.levels[0].promises[1].standing.met = 1; }));
  EXPECT_TRUE(refused([this] { other_.proof.levels[0].promises[1].node = node(2); }));
  EXPECT_TRUE(refused([this] { other_.proof = {}; }));
  EXPECT_TRUE(refused([this] { first_.base_step = 1; })) << "of another view's voters";
  first_.base_step = 0;
}

TEST_F(ForkTest, two_votes_in_one_ballot_expose_too) {
  other_ = decided({node(2), node(3)}, 1);
  other_.ballot = one_.ballot;
  other_.proof = {};
  for (Seal& seal : other_.seals)
    seal.signature = TwinSigner(seal.node).sign(kVotePurpose, vote_bytes(other_));
  EXPECT_EQ(exposed(), std::vector{node(3)});
}

TEST_F(ForkTest, a_later_vote_for_another_view_alone_says_nothing) {
  for (Told& told : other_.proof.levels[0].promises) {
    const Claim claim{one_.ballot, one_.view};
    told = told_by(told.node, first_, other_.ballot, {}, claim);
  }
  EXPECT_TRUE(exposed().empty());
}

TEST_F(ForkTest, it_is_seen_by_who_is_told_the_other_and_by_nobody_who_is_told_a_lie) {
  EXPECT_TRUE(fork_of(trust_, {one_}, {other_}));
  EXPECT_FALSE(fork_of(trust_, {one_}, {one_}));
  EXPECT_TRUE(fork_of(trust_, {one_}, {one_, other_})) << "as evidence is passed on";
  EXPECT_TRUE(fork_of(trust_, {one_}, {other_, one_}));
  EXPECT_FALSE(fork_of(trust_, {}, {other_}));
  other_.seals.pop_back();
  EXPECT_FALSE(fork_of(trust_, {one_}, {other_})) << "no quorum";
  other_ = decided({node(2), node(3)}, 2);
  other_.seals[0].signature[0] ^= std::byte{1};
  EXPECT_FALSE(fork_of(trust_, {one_}, {other_}));
  const gpunode::testing::BreakRule broken("forks_unsigned");
  EXPECT_TRUE(fork_of(trust_, {one_}, {other_})) << "the rule is needed";
}

TEST_F(ForkTest, both_sides_choose_the_same_one) {
  const Fork ours = *fork_of(trust_, {one_}, {other_});
  const Fork theirs = *fork_of(trust_, {other_}, {one_});
  EXPECT_TRUE(theirs_goes_on(ours)) << "of the higher ballot";
  EXPECT_FALSE(theirs_goes_on(theirs));
}

TEST_F(ForkTest, who_yields_has_the_proof_of_all_that_the_others_did_since) {
  View later = other_.view;
  later.view_id = 2;
  const ViewChain told{other_, decided_by(other_.view, later, {node(2), node(3)})};
  const Fork fork = *fork_of(trust_, {one_}, told);
  EXPECT_EQ(over_to_theirs(trust_, {one_}, told, fork), told);
  ViewChain cut = told;
  cut[1].seals.pop_back();
  EXPECT_TRUE(over_to_theirs(trust_, {one_}, cut, fork).empty());
}

}  // namespace
}  // namespace gpunode::view
