// What a member's false updates cost whom they are sent to, and what they keep from it: nothing is kept of
// what no owner has signed, a signature is looked at first, and honest nodes are not taken for liars.
#include <gtest/gtest.h>

#include "runtime/directory/directory.hpp"
#include "runtime/directory/directory_codec.hpp"
#include "tests/unit/runtime/directory/signing.hpp"

namespace gpunode::directory {
namespace {

using namespace std::chrono_literals;

class DirectoryLiesTest : public ::testing::Test {
 protected:
  static constexpr int kOwner = 1, kSelf = 2, kLiar = 3, kHonest = 4;

  // What an owner has written in so many versions, one key each.
  static Keyspace history(int owner, std::uint64_t version, const std::string& word = "true") {
    Keyspace keyspace;
    keyspace.epoch = 1;
    keyspace.version = version;
    for (std::uint64_t i = 1; i <= version; ++i)
      keyspace.items["key" + std::to_string(i)] = {to_bytes(as_bytes(word)), i, false};
    keyspace.root = root_of(keyspace, test_signing(owner));
    keyspace.signature = test_sign(test_id(owner), signed_bytes(test_id(owner), keyspace));
    return keyspace;
  }
  static Delta delta_of(int owner, const Keyspace& keyspace, std::uint64_t since = 0) {
    return cut_deltas(test_id(owner), keyspace, since, 64 * 1024, 1).at(0);
  }
  // Its items stop at `upto`; where it leads stays.
  static Delta part_of(Delta delta, std::uint64_t upto) {
    delta.upto = upto;
    std::erase_if(delta.items, [&](const Item& item) { return item.version > upto; });
    return delta;
  }
  static Delta forged(int owner, std::uint64_t since = 0, std::uint64_t version = 1) {
    return {test_id(owner), 1, 0, version, {}, Bytes(16), since, version};
  }

  Directory make(int index, DirectoryConfig config = {}) {
    DirectorySigning signing = test_signing(index);
    if (index == kSelf) {
      signing.hash = [this, hash = signing.hash](ByteView bytes) { return ++hashes_, hash(bytes); };
      signing.verify = [this, verify = signing.verify](const NodeId& owner, ByteView message,
                                                       ByteView signature) {
        return ++looks_, verify(owner, message, signature);
      };
    }
    return {test_id(index), 1, config, signing, static_cast<std::uint64_t>(index), now_};
  }
  // Messages that it answers with.
  std::vector<Message> tell(int from, std::vector<Delta> deltas) {
    return answers(
        {.kind = MessageKind::deltas, .root = {}, .positions = {}, .deltas = std::move(deltas)},
        from);
  }
  std::vector<Message> answers(const Message& message, int from) {
    hashes_ = looks_ = 0;
    std::vector<Message> sent;
    for (const Action& action : map_.on_message(now_, test_id(from), encode(message)))
      if (const auto* send = std::get_if<Send>(&action)) sent.push_back(*decode(send->bytes));
    return sent;
  }
  std::string seen(int owner, std::uint64_t version) {
    const auto value = map_.get(test_id(owner), "key" + std::to_string(version));
    return value ? std::string(as_text(*value)) : "-";
  }
  void up(std::initializer_list<int> peers) {
    for (const int peer : peers) (void)map_.on_peer_up(now_, test_id(peer));
  }

  Time now_ = Time{} + 1h;
  int hashes_ = 0, looks_ = 0;  // for the last message
  Directory map_ = make(kSelf);
};

TEST_F(DirectoryLiesTest, OwnersThatHaveSignedNothingTakeNobodysPlace) {
  DirectoryConfig config;
  config.max_owners = 4;
  map_ = make(kSelf, config);
  up({kOwner});
  for (int owner = 10; owner < 30; ++owner) {
    tell(kLiar, {part_of(forged(owner, 0, 2), 1)});
    EXPECT_EQ(hashes_, 0);
  }
  tell(kOwner, {delta_of(kOwner, history(kOwner, 3))});
  EXPECT_EQ(seen(kOwner, 3), "true");
}

TEST_F(DirectoryLiesTest, NoPartIsKeptOfWhatItsOwnerHasNotSigned) {
  up({kOwner});
  for (const int owner : {kOwner, kHonest}) {
    tell(kLiar, {part_of(forged(owner, 0, 9), 5)});
    const auto asked = answers({MessageKind::summary, {}, {{test_id(owner), 1, 9}}, {}}, kHonest);
    ASSERT_FALSE(asked.empty());
    ASSERT_EQ(asked[0].kind, MessageKind::request);
    EXPECT_EQ(asked[0].positions.at(0).version, 0u) << "as if it held a part";
  }
}

TEST_F(DirectoryLiesTest, AForgedUpdateCostsOneLookAtItsSignatureAndIsAnOffence) {
  up({kOwner});
  tell(kOwner, {delta_of(kOwner, history(kOwner, 5))});
  ASSERT_EQ(seen(kOwner, 5), "true");
  tell(kLiar, std::vector<Delta>(kMaxDeltas, forged(kOwner, 5, 6)));
  EXPECT_EQ(hashes_, 0);
  EXPECT_EQ(looks_, 1);
  EXPECT_EQ(map_.rejected_updates(), 1u);
  EXPECT_EQ(map_.malformed_messages(), 1u);
}

TEST_F(DirectoryLiesTest, AMessageIsReadUpToTheFirstForgedUpdate) {
  up({kOwner, kHonest, 5});
  tell(kLiar, {delta_of(kOwner, history(kOwner, 1)), forged(kHonest), delta_of(5, history(5, 1))});
  EXPECT_EQ(seen(kOwner, 1), "true");
  EXPECT_EQ(seen(5, 1), "-");
  EXPECT_EQ(map_.malformed_messages(), 1u);
}

TEST_F(DirectoryLiesTest, WhatCannotBeVerifiedOfOwnersThatAreNotLiveIsPassedOver) {
  up({kOwner});
  std::vector<Delta> deltas;
  for (int owner = 10; owner < 70; ++owner) deltas.push_back(forged(owner));
  deltas.push_back(delta_of(kOwner, history(kOwner, 1)));
  tell(kHonest, deltas);
  EXPECT_EQ(seen(kOwner, 1), "true");
  EXPECT_EQ(map_.malformed_messages(), 0u);
  EXPECT_LE(looks_, 20);
}

TEST_F(DirectoryLiesTest, WhoAltersWhatAnOwnerHasSignedOffends) {
  up({kOwner});
  Delta altered = delta_of(kOwner, history(kOwner, 3));
  altered.items[1].value = to_bytes(as_bytes("lie"));
  tell(kLiar, {altered});
  EXPECT_EQ(seen(kOwner, 2), "-");
  EXPECT_EQ(map_.malformed_messages(), 1u);
  tell(kHonest, {delta_of(kOwner, history(kOwner, 3))});
  EXPECT_EQ(seen(kOwner, 2), "true");
  EXPECT_EQ(map_.malformed_messages(), 1u);
}

TEST_F(DirectoryLiesTest, ALieLeadingToWhereTheOwnerIsDoesNotKeepTheTruthOut) {
  up({kOwner});
  tell(kOwner, {delta_of(kOwner, history(kOwner, 5))});
  Delta lie = part_of(delta_of(kOwner, history(kOwner, 7), 5), 6);
  lie.items[0].value = to_bytes(as_bytes("lie"));
  tell(kLiar, {lie});
  tell(kHonest, {delta_of(kOwner, history(kOwner, 7), 5)});
  EXPECT_EQ(seen(kOwner, 6), "true");
  EXPECT_EQ(seen(kOwner, 7), "true");
}

// An owner told this node one history and an honest one another: that one is not to blame, and the
// whole makes both equal.
TEST_F(DirectoryLiesTest, AnOwnerWithTwoHistoriesMakesNoLiarOfWhoPassesThemOn) {
  up({kOwner});
  tell(kOwner, {delta_of(kOwner, history(kOwner, 5, "one"))});
  const Keyspace other = history(kOwner, 6, "other");
  tell(kHonest, {delta_of(kOwner, other, 5)});
  EXPECT_EQ(seen(kOwner, 6), "-");
  for (int again = 0; again < 3; ++again) {
    now_ += 1s;
    const auto asked = tell(kHonest, {delta_of(kOwner, other, 5)});
    EXPECT_EQ(hashes_, 0);
    ASSERT_EQ(asked.size(), 1u);
    EXPECT_EQ(asked[0].positions.at(0).version, 0u);
  }
  EXPECT_EQ(map_.malformed_messages(), 0u);
  tell(kHonest, {delta_of(kOwner, other)});
  EXPECT_EQ(seen(kOwner, 5), "other");
  EXPECT_EQ(seen(kOwner, 6), "other");
  EXPECT_EQ(map_.malformed_messages(), 0u);
}

TEST_F(DirectoryLiesTest, AnOwnerInAHurryCostsABurstAndIsCaughtUpWithInALaterRound) {
  const DirectoryConfig config;
  Directory owner = make(kOwner);
  (void)owner.on_peer_up(now_, test_id(kSelf));
  up({kOwner});
  int hashes = 0;
  const auto carry = [&](Actions actions) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const auto* send = std::get_if<Send>(&actions[i]);
      if (!send) continue;
      const Bytes bytes = send->bytes;
      const bool to_owner = send->to == test_id(kOwner);
      hashes_ = 0;
      const Actions more = to_owner ? owner.on_message(now_, test_id(kSelf), bytes)
                                    : map_.on_message(now_, test_id(kOwner), bytes);
      if (decode(bytes)->kind == MessageKind::deltas) hashes += hashes_;
      actions.insert(actions.end(), more.begin(), more.end());
    }
  };
  for (int i = 0; i < 500; ++i)
    carry(*owner.set(now_, "key" + std::to_string(i % 10), as_bytes(std::to_string(i))));
  EXPECT_LE(hashes, config.work_burst);
  EXPECT_NE(map_.root(), owner.root());
  now_ += config.round;
  carry(owner.on_tick(now_));
  EXPECT_EQ(map_.root(), owner.root());
  EXPECT_EQ(map_.malformed_messages(), 0u);
}

TEST_F(DirectoryLiesTest, WhoBeginsAgainAndAgainOffendsAndDoesNotStopTheOwner) {
  up({kOwner});
  tell(kOwner, {delta_of(kOwner, history(kOwner, 5))});
  const Delta begun = part_of(delta_of(kOwner, history(kOwner, 7), 5), 5);
  for (int i = 0; i < 400; ++i) tell(kLiar, {begun});
  EXPECT_GT(map_.malformed_messages(), 100u);
  tell(kOwner, {delta_of(kOwner, history(kOwner, 7), 5)});
  EXPECT_EQ(seen(kOwner, 7), "true");
}

}  // namespace
}  // namespace gpunode::directory
