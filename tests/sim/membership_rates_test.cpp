// What honest nodes say to each other stays far below what one peer is allowed: among thirty, also
// while they come, crash, are cut off and change what they offer, each pair needs a tenth of the
// limits of gossip and of the directory at most.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "actors/node/peer_limits.hpp"
#include "runtime/security/rate_limit.hpp"
#include "tests/sim/membership_world.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;
using node::Load;
using node::PeerLimit;

// One kind of load between all pairs, with a tenth of what the limits allow.
class Tenth {
 public:
  explicit Tenth(Load load)
      : limit_(node::limit_of(load)),
        rate_({.burst = limit_.burst / 10, .per_second = limit_.per_second / 10}) {}

  void sent(Time now, int from, const NodeId& to, std::size_t bytes) {
    const std::string pair = std::to_string(from) + ">" + to.short_text();
    if (!rate_.allow(pair, now, node::cost_of(bytes))) ++over_;
    Second& second = seconds_[pair];
    if (now >= second.since + 1s) second = {now, 0, 0};
    ++second.count;
    second.bytes += bytes;
    most_count_ = std::max(most_count_, second.count);
    most_bytes_ = std::max(most_bytes_, second.bytes);
  }
  void expect_enough() const {
    EXPECT_EQ(over_, 0u) << limit_.name;
    EXPECT_LE(most_bytes_ * 10, limit_.bytes) << limit_.name;
    std::printf("%s: at most %zu messages and %zu bytes a pair and second\n",
                std::string(limit_.name).c_str(), most_count_, most_bytes_);
  }

 private:
  struct Second {
    Time since{};
    std::size_t count = 0, bytes = 0;
  };
  const PeerLimit& limit_;
  security::RateLimit rate_;
  std::map<std::string, Second> seconds_;
  std::size_t over_ = 0, most_count_ = 0, most_bytes_ = 0;
};

TEST(MembershipRates, of_thirty_honest_nodes_are_a_tenth_of_the_limits_at_most) {
  WorldOptions options;
  options.nodes = 30;
  World world(options);
  Tenth gossip(Load::gossip), directory(Load::directory);
  world.on_sent = [&](int from, const NodeId& to, World::Channel channel, std::size_t bytes) {
    (channel == World::Channel::swim ? gossip : directory).sent(world.now(), from, to, bytes);
  };
  world.start(0);
  for (int i = 1; i < world.size(); ++i) {
    world.run(20ms);
    world.start(i, static_cast<int>(world.rng().below(i)));
  }
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < world.size(); ++i)
      if (world.up(i)) world.publish(i, "job/" + std::to_string(round % 5));
    const int victim = static_cast<int>(world.rng().below(world.size()));
    int through = 0;
    while (!world.up(through)) ++through;
    if (!world.up(victim))
      world.start(victim, through);
    else if (round % 3 == 0)
      world.kill(victim);
    else if (round % 3 == 1)
      world.pause(victim, 3s);
    else
      world.reset_link(victim, (victim + 1) % world.size());
    world.run(3s);
  }
  gossip.expect_enough();
  directory.expect_enough();
}

}  // namespace
}  // namespace gpunode::sim
