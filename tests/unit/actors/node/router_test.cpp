// The mailboxes behind the router, while their actors read nothing: of each peer so much waits in
// them as its limits say, and what others say comes in.
#include "actors/node/router.hpp"

#include <gtest/gtest.h>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "actors/mailbox.hpp"

namespace gpunode::node {
namespace {

using transport::Lane;
using transport::Topic;

class RouterTest : public ::testing::Test {
 protected:
  // Reads nothing while the test holds its lock.
  struct Reader {
    std::mutex reads;
    std::atomic<int> entered{0};
    std::map<NodeId, std::size_t> of_peer;
  };

  RouterTest() {
    one_.value[0] = std::byte{1};
    other_.value[0] = std::byte{2};
    for (caf::actor* actor : {&targets_.cluster, &targets_.job_board, &targets_.admission})
      *actor = system_.spawn([this](caf::event_based_actor* self) -> caf::behavior {
        expect_known_messages(self);
        return {[this](const NetMessage& net) {
                  ++reader_.entered;
                  std::lock_guard lock(reader_.reads);
                  ++reader_.of_peer[net.from];
                },
                [](const Heard&) {}, [self](const Shutdown&) { self->quit(); }};
      });
    targets_.authority = &authority_;
    targets_.limits =
        std::make_shared<PeerLimits>(PeerLimits::Options{&clock_, &metrics_, &authority_});
    router_.set_targets(targets_);
    router_.set_job(kStream, targets_.job_board, nullptr);
  }
  ~RouterTest() override {
    for (const caf::actor& actor : {targets_.cluster, targets_.job_board, targets_.admission})
      caf::anon_send(actor, Shutdown{});
    router_.clear();
  }

  void say(const NodeId& from, Topic topic, Lane lane = Lane::control) {
    router_.on_message(from, lane, {topic, kStream, Bytes(kBytes), {}});
  }

  static constexpr std::uint64_t kStream = 7;
  static constexpr std::size_t kBytes = std::size_t{256} << 10;
  NodeId one_, other_;
  SystemClock clock_;
  telemetry::Registry metrics_;
  security::Authority authority_{
      {}, [](const NodeId&) { return security::kAllRights; }, nullptr, nullptr};
  Reader reader_;
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  Router::Targets targets_;
  Router router_{clock_};
};

TEST_F(RouterTest, a_flood_fills_its_senders_share_of_a_mailbox_and_no_more) {
  const std::pair<Topic, Load> kinds[] = {{Topic::membership, Load::gossip},
                                          {Topic::directory, Load::directory},
                                          {Topic::admission, Load::admission},
                                          {Topic::job, Load::job}};
  for (const auto& [topic, load] : kinds) {
    const std::size_t most = limit_of(load).bytes / kBytes;
    {
      std::lock_guard lock(reader_.reads);
      reader_.of_peer.clear();
      for (std::size_t i = 0; i < 4 * most; ++i) say(one_, topic);
      say(other_, topic);
    }
    const auto all_read = [&] {
      std::lock_guard lock(reader_.reads);
      return reader_.of_peer[other_] > 0 && targets_.limits->has_room(one_, load);
    };
    const Time until = clock_.now() + std::chrono::seconds(30);
    while (!all_read() && clock_.now() < until) std::this_thread::yield();
    std::lock_guard lock(reader_.reads);
    EXPECT_EQ(reader_.of_peer[other_], 1u) << limit_of(load).name;
    EXPECT_GE(reader_.of_peer[one_], 1u) << limit_of(load).name;
    EXPECT_LE(reader_.of_peer[one_], most + 1) << limit_of(load).name;
  }
}

TEST_F(RouterTest, bulk_of_a_job_is_not_read_from_who_has_filled_its_share) {
  std::unique_lock lock(reader_.reads);
  // An idle actor would run the message on this thread.
  const auto first = std::make_shared<const transport::Message>();
  caf::anon_send(targets_.job_board, NetMessage{other_, Lane::bulk, first});
  while (reader_.entered == 0) std::this_thread::yield();
  std::size_t said = 0;
  for (; router_.may_read(one_) && said < 1000; ++said) say(one_, Topic::job, Lane::bulk);
  EXPECT_LE(said * kBytes, limit_of(Load::job_bulk).bytes + kBytes);
  EXPECT_GE((said + 1) * (kBytes + 1024), limit_of(Load::job_bulk).bytes);
  EXPECT_TRUE(router_.may_read(other_));
  lock.unlock();
  const Time until = clock_.now() + std::chrono::seconds(30);
  while (!router_.may_read(one_) && clock_.now() < until) std::this_thread::yield();
  EXPECT_TRUE(router_.may_read(one_));
}

}  // namespace
}  // namespace gpunode::node
