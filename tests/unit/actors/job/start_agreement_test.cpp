#include "actors/job/start_agreement.hpp"

#include <gtest/gtest.h>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>

#include <map>
#include <set>

#include "actors/job/job_note_codec.hpp"
#include "runtime/base/rng.hpp"
#include "tests/support/ids.hpp"

namespace gpunode::jobs {
namespace {

using namespace std::chrono_literals;

// Holders whose votes are here; what is asked of them is answered in any order, or lost on the way
// there or back.
class Agreement : public ::testing::Test {
 protected:
  void begin(const view::Ballot& ballot, const std::vector<NodeId>& holders, int value) {
    ++open_;
    spawn_start_agreement(system_, {{1, 2},
                                    holders,
                                    ballot,
                                    Bytes(3, static_cast<std::byte>(value)),
                                    caf::actor_cast<caf::actor>(calls_.ptr()),
                                    [me = caf::actor_cast<caf::actor>(calls_.ptr())](auto agreed) {
                                      caf::anon_send(me, Ended{std::move(agreed)});
                                    }});
  }
  struct Ended {
    Result<Bytes> agreed;
  };

  void take() {
    calls_->receive([&](const CallRequest& call) { asked_.push_back(call); },
                    [&](const Ended& ended) {
                      --open_;
                      if (ended.agreed) agreed_.insert(*ended.agreed);
                    },
                    caf::after(20s) >> [] { FAIL() << "nothing is asked"; });
  }

  void deliver(std::size_t at, bool there, bool back) {
    const CallRequest call = asked_[at];
    asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(at));
    const Error lost{ErrorCode::timeout, "lost"};
    if (!there) return call.done(lost);
    const auto note = std::get<QueueNote>(*decode_note(call.request.view));
    StartVote& vote = votes_[*call.to];
    if (call.name == "queue.accept")
      vote.accept(note.vote.promised, note.vote.manifest);
    else
      vote.promise(note.vote.promised);
    if (!back) return call.done(lost);
    call.done(SharedBytes::from(encode(QueueNote{note.job, vote, {}})));
  }

  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  caf::scoped_actor calls_{system_};
  std::vector<CallRequest> asked_;
  std::map<NodeId, StartVote> votes_;
  std::set<Bytes> agreed_;
  int open_ = 0;
};

TEST_F(Agreement, of_one_holder_is_its_own) {
  begin({1, node(1)}, {node(1)}, 7);
  while (open_ > 0) {
    take();
    if (!asked_.empty()) deliver(0, true, true);
  }
  EXPECT_EQ(agreed_, std::set<Bytes>{Bytes(3, std::byte{7})});
}

TEST_F(Agreement, needs_more_than_half_of_the_holders) {
  begin({1, node(1)}, {node(1), node(2)}, 7);
  while (open_ > 0) {
    take();
    if (!asked_.empty()) deliver(0, *asked_[0].to == node(1), true);
  }
  EXPECT_TRUE(agreed_.empty());
}

TEST_F(Agreement, of_nobody_ends) {
  begin({1, node(1)}, {}, 7);
  while (open_ > 0) take();
  EXPECT_TRUE(agreed_.empty());
}

TEST_F(Agreement, of_several_starters_in_any_order_with_losses_is_one) {
  int reached = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    votes_.clear();
    agreed_.clear();
    std::vector<NodeId> holders;
    for (int i = 1; i <= 2 + static_cast<int>(rng.below(4)); ++i) holders.push_back(node(i));
    std::uint64_t begun = 0;
    const std::uint64_t starts = 2 + rng.below(4);
    while (begun < starts || open_ > 0) {
      if (begun < starts && (open_ == 0 || rng.below(12) == 0)) {
        ++begun;
        begin({1 + rng.below(begun), node(1 + static_cast<int>(begun))}, holders,
              static_cast<int>(begun));
      }
      // All that is on its way comes before anything is answered, so that every order can happen.
      while (calls_->has_next_message() || (asked_.empty() && open_ > 0)) take();
      if (!asked_.empty()) deliver(rng.below(asked_.size()), rng.below(8) != 0, rng.below(8) != 0);
    }
    EXPECT_LE(agreed_.size(), 1u) << "seed " << seed;
    reached += agreed_.empty() ? 0 : 1;
  }
  EXPECT_GT(reached, 100);
}

}  // namespace
}  // namespace gpunode::jobs
