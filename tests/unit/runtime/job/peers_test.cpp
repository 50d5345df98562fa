#include "runtime/job/peers.hpp"

#include <gtest/gtest.h>

namespace gpunode::job {
namespace {

using namespace std::chrono_literals;

const NodeId kPeer{{std::byte{2}}};

// Begins an hour after the clock's origin, so that "never" is long ago.
class PeersTest : public ::testing::Test {
 protected:
  bool on_health(PeerHealth health) { return peers_.on_health(now_, kPeer, health); }
  void on_link(LinkState state) { peers_.on_link(now_, kPeer, state); }
  bool reached() const { return peers_.reached(now_, kPeer); }
  bool suspected() const { return peers_.suspected(now_, kPeer); }
  bool gone() const { return peers_.gone(kPeer); }
  void hear() { peers_.on_message(now_, kPeer); }
  bool breaks() { return peers_.breaks_in_vain(now_, kPeer, 5s); }

  Peers peers_;
  Time now_ = Time{} + 1h;
};

TEST_F(PeersTest, who_was_never_heard_of_is_reached_and_not_suspected) {
  EXPECT_TRUE(reached());
  EXPECT_FALSE(suspected());
  EXPECT_FALSE(gone());
  EXPECT_EQ(peers_.heard(kPeer), Time{});
  EXPECT_TRUE(peers_.known().empty()) << "to ask is not to know";
}

TEST_F(PeersTest, a_message_is_remembered_with_its_time) {
  hear();
  EXPECT_EQ(peers_.heard(kPeer), now_);
  EXPECT_EQ(peers_.known(), std::vector{kPeer});
}

TEST_F(PeersTest, whom_the_detector_doubts_is_suspected_until_it_is_heard) {
  EXPECT_TRUE(on_health(PeerHealth::suspect));
  EXPECT_TRUE(suspected());
  EXPECT_TRUE(reached());
  now_ += 1s;
  hear();
  EXPECT_FALSE(suspected());
}

TEST_F(PeersTest, the_detectors_verdict_and_a_refused_dial_both_mean_gone) {
  for (const bool verdict : {true, false}) {
    verdict ? static_cast<void>(on_health(PeerHealth::dead)) : on_link(LinkState::refused);
    EXPECT_TRUE(gone());
    EXPECT_TRUE(suspected());
    EXPECT_FALSE(reached());
    EXPECT_EQ(peers_.unreached(now_), std::vector{kPeer});
    on_link(LinkState::up);
    EXPECT_FALSE(gone());
  }
}

TEST_F(PeersTest, a_message_that_was_under_way_brings_nobody_back_to_life) {
  on_health(PeerHealth::dead);
  now_ += 199ms;
  hear();
  EXPECT_TRUE(gone());
  now_ += 1ms;
  hear();
  EXPECT_FALSE(gone());
}

TEST_F(PeersTest, an_old_word_of_the_detector_does_not_outweigh_a_refused_dial) {
  on_link(LinkState::refused);
  now_ += 1999ms;
  EXPECT_FALSE(on_health(PeerHealth::alive));
  EXPECT_FALSE(on_health(PeerHealth::suspect));
  EXPECT_TRUE(gone());
  now_ += 1ms;
  EXPECT_TRUE(on_health(PeerHealth::alive));
  EXPECT_FALSE(gone());
}

TEST_F(PeersTest, a_new_connection_outweighs_a_refused_dial_at_once) {
  on_link(LinkState::refused);
  on_link(LinkState::up);
  EXPECT_FALSE(gone());
}

TEST_F(PeersTest, who_says_farewell_is_gone) {
  hear();
  peers_.on_farewell(now_, kPeer);
  EXPECT_TRUE(gone());
}

TEST_F(PeersTest, the_doubt_of_another_member_holds_for_two_seconds) {
  peers_.on_doubt(now_, kPeer);
  now_ += 1999ms;
  EXPECT_TRUE(suspected());
  now_ += 1ms;
  EXPECT_FALSE(suspected());
}

TEST_F(PeersTest, who_was_heard_a_moment_ago_is_not_doubted_on_hearsay) {
  hear();
  now_ += 100ms;
  peers_.on_doubt(now_, kPeer);
  EXPECT_FALSE(suspected());
  now_ += 1ms;
  peers_.on_doubt(now_, kPeer);
  EXPECT_TRUE(suspected());
}

TEST_F(PeersTest, silence_counts_from_when_it_was_awaited_heard_or_the_step_began) {
  hear();
  now_ += 3s;
  EXPECT_EQ(peers_.waited(now_, kPeer, true, Time{}), 0s) << "awaited from now on";
  now_ += 1s;
  EXPECT_EQ(peers_.waited(now_, kPeer, true, Time{}), 1s);
  EXPECT_EQ(peers_.waited(now_, kPeer, true, now_ - 300ms), 300ms);
  hear();
  EXPECT_EQ(peers_.waited(now_, kPeer, true, Time{}), 0s);
}

TEST_F(PeersTest, who_owes_nothing_for_a_moment_is_awaited_anew) {
  peers_.waited(now_, kPeer, true, Time{});
  now_ += 4s;
  EXPECT_EQ(peers_.waited(now_, kPeer, false, Time{}), 0s);
  EXPECT_EQ(peers_.waited(now_, kPeer, true, Time{}), 0s);
}

TEST_F(PeersTest, who_was_waited_for_in_vain_is_not_reached_until_it_is_heard) {
  peers_.give_up(now_, kPeer);
  EXPECT_FALSE(reached());
  EXPECT_TRUE(suspected());
  now_ += 10s;
  EXPECT_FALSE(reached()) << "though the doubt is over";
  on_health(PeerHealth::alive);
  EXPECT_FALSE(reached()) << "others hear it";
  hear();
  EXPECT_TRUE(reached());
}

TEST_F(PeersTest, a_connection_breaks_in_vain_after_ten_seconds_without_a_byte_of_a_step) {
  EXPECT_FALSE(breaks());
  now_ += 9999ms;
  hear();
  EXPECT_FALSE(breaks());
  now_ += 1ms;
  EXPECT_TRUE(breaks());
}

TEST_F(PeersTest, bytes_of_a_step_show_that_the_connection_is_sound) {
  breaks();
  now_ += 9s;
  peers_.on_bytes(kPeer);
  now_ += 2s;
  hear();
  EXPECT_FALSE(breaks()) << "the first since the bytes";
}

TEST_F(PeersTest, a_silent_or_dead_nodes_connection_is_for_the_detector_to_find) {
  breaks();
  now_ += 20s;
  EXPECT_FALSE(breaks()) << "it is not heard at all";
  on_health(PeerHealth::dead);
  on_link(LinkState::up);
  hear();
  EXPECT_FALSE(breaks()) << "its next life begins anew";
}

TEST_F(PeersTest, a_link_that_is_cut_is_tried_again_after_fifteen_seconds) {
  peers_.cut(now_, kPeer);
  hear();
  EXPECT_FALSE(reached()) << "a message goes by another way";
  EXPECT_FALSE(suspected()) << "it lives";
  now_ += 14s;
  EXPECT_FALSE(reached());
  now_ += 1s;
  EXPECT_TRUE(reached());
}

TEST_F(PeersTest, a_link_that_is_cut_again_and_again_is_tried_less_and_less_often) {
  for (const auto holds : {15s, 30s, 60s, 120s, 240s, 240s}) {
    peers_.cut(now_, kPeer);
    now_ += holds - 1s;
    EXPECT_FALSE(reached()) << holds.count();
    now_ += 1s;
    EXPECT_TRUE(reached()) << holds.count();
  }
  now_ += 10min;
  peers_.cut(now_, kPeer);
  now_ += 15s;
  EXPECT_TRUE(reached()) << "what was so long ago is forgotten";
}

TEST_F(PeersTest, a_link_that_is_cut_is_used_again_once_bytes_come) {
  peers_.cut(now_, kPeer);
  peers_.on_bytes(kPeer);
  EXPECT_TRUE(reached());
}

TEST_F(PeersTest, a_doubt_of_the_detector_lifts_neither_silence_nor_a_cut) {
  peers_.give_up(now_, kPeer);
  on_health(PeerHealth::suspect);
  EXPECT_FALSE(reached());
  hear();
  peers_.cut(now_, kPeer);
  on_health(PeerHealth::suspect);
  EXPECT_FALSE(reached());
}

}  // namespace
}  // namespace gpunode::job
