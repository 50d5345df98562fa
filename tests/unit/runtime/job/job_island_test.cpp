// Mode nccl among three cores and devices that are plain sums: they meet while steps go over the
// links, sum, and fail without a step being lost.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>

#include "runtime/job/job_core.hpp"

namespace gpunode::job {
namespace {

using namespace std::chrono_literals;
using collective::IslandNews;
using collective::SharedFloats;
using Kind = IslandNews::Kind;

constexpr std::size_t kElements = 8;

NodeId node(int number) {
  NodeId id;
  id.value[0] = static_cast<std::byte>(number);
  return id;
}

class World {
 public:
  explicit World(int count, std::set<int> without = {}) : without_(std::move(without)) {
    for (int i = 0; i < count; ++i) {
      JobCore::Options options;
      options.self = {node(i + 1), 1};
      options.job = {1, 1};
      for (int one = 1; one <= count; ++one) options.candidates.push_back(node(one));
      options.wanted_nodes = static_cast<std::uint32_t>(count);
      options.total_steps = 1000;
      options.tree = collective::Tree::of_slices(4);
      options.element_count = kElements;
      options.add = [](float* out, std::span<const float* const> inputs, std::size_t elements) {
        for (std::size_t k = 0; k < elements; ++k) {
          float sum = inputs[0][k];
          for (std::size_t j = 1; j < inputs.size(); ++j) sum += inputs[j][k];
          out[k] = sum;
        }
      };
      options.island = true;
      options.host = {9, 9};
      options.fingerprint = {2, 2};
      options.initial_state_digest = {3, 3};
      options.max_state_bytes = 4096;
      options.seed = static_cast<std::uint64_t>(i);
      cores.push_back(std::move(*JobCore::create(std::move(options))));
    }
    now += 1s;
    for (std::size_t i = 0; i < cores.size(); ++i)
      feed(i, [&](JobCore& core, Actions& out) { core.on_start(now, out); });
  }

  template <class Event>
  void feed(std::size_t at, Event event) {
    Actions out;
    event(cores[at], out);
    for (Action& action : out) carry_out(at, action);
  }
  void lose(std::size_t at, const std::string& reason) { tell(at, {Kind::lost, 0, 0, {}, reason}); }
  // Delivers what is under way, and lets time pass, until every core has committed that step.
  bool run_to(std::uint64_t step) {
    for (int round = 0; round < 2000; ++round) {
      for (int events = 0; !queue_.empty() && events < 300; ++events) {
        auto next = std::move(queue_.front());
        queue_.pop_front();
        next();
        if (reached(step)) return true;
      }
      now += 20ms;
      for (std::size_t i = 0; i < cores.size(); ++i)
        feed(i, [&](JobCore& core, Actions& out) { core.on_tick(now, out); });
    }
    return false;
  }
  bool reached(std::uint64_t step) const {
    return std::all_of(cores.begin(), cores.end(),
                       [step](const JobCore& core) { return core.committed() >= step; });
  }
  JobStatus status(std::size_t at) const { return cores[at].status(now); }

  Time now{};
  std::vector<JobCore> cores;
  bool hangs = false;        // no sum comes back
  int wrong = -1;            // whose sum is another one
  std::vector<Bytes> named;  // meetings
  std::map<std::pair<std::size_t, std::uint64_t>, std::vector<float>> results;  // by core, step

 private:
  struct Sum {
    std::size_t at = 0;
    std::uint64_t formation = 0, order = 0;
    collective::IslandSum sum;
  };

  void tell(std::size_t at, IslandNews news) {
    news.formation = formation_[at];
    feed(at, [&](JobCore& core, Actions& out) { core.on_island(now, news, out); });
  }
  void carry_out(std::size_t at, Action& action) {
    if (auto* one = std::get_if<Send>(&action)) {
      for (std::size_t to = 0; to < cores.size(); ++to)
        if (node(static_cast<int>(to) + 1) == one->to)
          queue_.push_back([this, at, to, message = one->message] {
            feed(to, [&](JobCore& core, Actions& out) {
              core.on_message(now, node(static_cast<int>(at) + 1), message, out);
            });
          });
    } else if (auto* one = std::get_if<Persist>(&action)) {
      queue_.push_back([this, at, token = one->token] {
        feed(at, [&](JobCore& core, Actions& out) { core.on_persisted(now, token, out); });
      });
    } else if (auto* one = std::get_if<Compute>(&action)) {
      queue_.push_back([this, at, order = *one] { compute(at, order); });
    } else if (auto* one = std::get_if<Apply>(&action)) {
      results[{at, one->step}] = *one->result;
      queue_.push_back([this, at, step = one->step] {
        feed(at, [&](JobCore& core, Actions& out) {
          core.on_applied(now, step, {step, step}, out);
        });
      });
    } else {
      use_device(at, action);
    }
  }
  void use_device(std::size_t at, Action& action) {
    if (auto* one = std::get_if<StartIsland>(&action)) {
      formation_[at] = one->formation;
      const bool has_none = without_.contains(static_cast<int>(at));
      IslandNews news{has_none ? Kind::lost : Kind::able, one->formation, 0, {}, ""};
      if (has_none) news.reason = "no GPU";
      queue_.push_back([this, at, news] {
        feed(at, [&](JobCore& core, Actions& out) { core.on_island(now, news, out); });
      });
    } else if (std::get_if<NameIsland>(&action)) {
      named.push_back(Bytes(128, static_cast<std::byte>(named.size() + 1)));
      tell(at, {Kind::named, 0, 0, named.back(), ""});
    } else if (auto* one = std::get_if<JoinIsland>(&action)) {
      EXPECT_EQ(one->name, named.back());
      EXPECT_TRUE(one->one_host);
      tell(at, {Kind::joined, 0, 0, {}, ""});
    } else if (auto* one = std::get_if<SumOnIsland>(&action)) {
      sums_.push_back({at, formation_[at], one->order, std::move(one->sum)});
      if (!hangs && sums_.size() == cores.size()) queue_.push_back([this] { sum_all(); });
    }
  }
  void compute(std::size_t at, const Compute& order) {
    for (const collective::TreeNode& one : order.nodes) {
      const float value = static_cast<float>(order.step) + static_cast<float>(one.index);
      const auto sum = std::make_shared<const std::vector<float>>(kElements, value);
      feed(at, [&](JobCore& core, Actions& out) {
        core.on_partial(now, {order.order, order.step, one, sum, {{1, 1}, 4}, 0, kElements, {}},
                        out);
      });
    }
  }
  void sum_all() {
    std::vector<Sum> sums;
    sums.swap(sums_);
    std::vector<float> total(kElements, 0.0f);
    for (const Sum& one : sums)
      for (const SharedFloats& part : one.sum.parts)
        for (std::size_t i = 0; i < kElements; ++i) total[i] += (*part)[i];
    for (const Sum& one : sums) {
      *one.sum.result = total;
      if (static_cast<int>(one.at) == wrong) one.sum.result->front() += 1;
      feed(one.at, [&](JobCore& core, Actions& out) {
        core.on_island(now, {Kind::summed, one.formation, one.order, {}, ""}, out);
      });
    }
  }

  std::set<int> without_;
  std::map<std::size_t, std::uint64_t> formation_;
  std::vector<Sum> sums_;
  std::deque<std::function<void()>> queue_;
};

void expect_alike(const World& world, std::uint64_t steps) {
  for (std::uint64_t step = 1; step <= steps; ++step)
    for (std::size_t at = 1; at < world.cores.size(); ++at)
      EXPECT_EQ(world.results.at({at, step}), world.results.at({0, step})) << step;
}

TEST(JobIsland, the_devices_meet_while_steps_go_over_the_links_and_then_sum) {
  World world(3);
  ASSERT_TRUE(world.run_to(20));
  EXPECT_EQ(world.named.size(), 1u);
  for (std::size_t at = 0; at < 3; ++at) {
    EXPECT_TRUE(world.status(at).island.used);
    EXPECT_GT(world.status(at).island_steps, 10u);
    EXPECT_LT(world.status(at).island_steps, 20u) << "the first steps did not wait";
  }
  expect_alike(world, 20);
}

TEST(JobIsland, a_member_without_a_device_is_named_and_the_links_are_taken) {
  World world(3, {1});
  ASSERT_TRUE(world.run_to(10));
  for (std::size_t at = 0; at < 3; ++at) {
    const IslandUse use = world.status(at).island;
    EXPECT_FALSE(use.used || use.later);
    EXPECT_EQ(use.node, node(2));
    EXPECT_EQ(use.reason, "no GPU");
    EXPECT_EQ(world.status(at).island_steps, 0u);
  }
  EXPECT_TRUE(world.named.empty());
}

TEST(JobIsland, a_device_lost_in_a_sum_ends_the_view_and_the_step_is_done_again) {
  World world(3);
  ASSERT_TRUE(world.run_to(10));
  const std::uint64_t view = world.status(0).view_id;
  world.hangs = true;
  EXPECT_FALSE(world.run_to(40)) << "nothing goes on while the sum hangs";
  const std::uint64_t stuck = world.cores[0].committed();
  world.lose(1, "the sum hung");
  ASSERT_TRUE(world.run_to(stuck + 10));
  EXPECT_GT(world.status(0).view_id, view);
  for (std::size_t at = 0; at < 3; ++at) {
    EXPECT_EQ(world.status(at).members.size(), 3u);
    EXPECT_EQ(world.status(at).island.node, node(2));
    EXPECT_EQ(world.status(at).island.reason, "the sum hung");
  }
  expect_alike(world, stuck + 10);
}

TEST(JobIsland, a_device_lost_between_steps_costs_no_view) {
  World world(3, {});
  ASSERT_TRUE(world.run_to(2));
  const std::uint64_t view = world.status(0).view_id;
  ASSERT_FALSE(world.status(0).island.used) << "they have not met yet";
  world.lose(2, "its GPU process died");
  ASSERT_TRUE(world.run_to(20));
  EXPECT_EQ(world.status(0).view_id, view);
  EXPECT_EQ(world.status(0).island.node, node(3));
}

TEST(JobIsland, sums_that_differ_are_not_committed_and_done_again_over_the_links) {
  World world(3);
  ASSERT_TRUE(world.run_to(10));
  world.wrong = 0;
  ASSERT_TRUE(world.run_to(30));
  expect_alike(world, 30);
  for (std::size_t at = 0; at < 3; ++at) EXPECT_FALSE(world.status(at).island.used);
}

TEST(JobIsland, a_device_that_failed_is_tried_again_in_a_view_after_a_while) {
  World world(3);
  ASSERT_TRUE(world.run_to(10));
  world.lose(1, "it failed");
  ASSERT_TRUE(world.run_to(20));
  EXPECT_FALSE(world.status(0).island.used);
  const std::size_t met = world.named.size();
  world.now += 61s;
  Actions ignored;
  for (std::size_t at = 0; at < 3; ++at)  // any other reason for a view change
    world.feed(at, [&](JobCore& core, Actions& out) {
      core.on_message(world.now, node(at == 0 ? 2 : 1),
                      {{1, 1},
                       core.view().generation,
                       core.view().view_id,
                       1,
                       FreezeHint{"a test", {}},
                       core.view().lineage},
                      out);
    });
  ASSERT_TRUE(world.run_to(400));
  EXPECT_TRUE(world.status(0).island.used);
  EXPECT_EQ(world.named.size(), met + 1);
}

}  // namespace
}  // namespace gpunode::job
