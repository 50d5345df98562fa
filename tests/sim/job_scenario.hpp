// What the tests of named situations share: a world without accidents, and how long it stood still.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include <gtest/gtest.h>

#include "tests/sim/job_world.hpp"

namespace gpunode::sim {

// A world without accidents.
inline WorldOptions calm_world(std::uint32_t nodes, std::uint64_t steps) {
  WorldOptions options;
  options.trace = std::getenv("GPUNODE_SIM_TRACE") != nullptr;
  options.model.tree = collective::Tree::of_slices(8);
  options.model.total_steps = steps;
  options.node_count = options.candidate_count = options.wanted_nodes = nodes;
  options.crash_rate = options.cut_rate = options.reset_rate = options.pause_rate = 0;
  options.false_suspicion_rate = options.loss = options.repetition = 0;
  options.refused = 1;
  options.fault_time = Duration{};
  return options;
}

inline void expect_good(const WorldResult& result) {
  EXPECT_TRUE(result.finished);
  for (const std::string& failure : result.failures) ADD_FAILURE() << failure;
}

// The newest step that anybody commits in the views of `nodes`, now.
inline std::uint64_t reached(JobWorld& world, std::initializer_list<std::size_t> nodes) {
  std::uint64_t newest = 0;
  for (const std::size_t node : nodes)
    if (world.alive(node)) newest = std::max(newest, world.core(node).committed());
  return newest;
}

inline void heal_link(JobWorld& world, std::size_t one, std::size_t other) {
  world.set_cut(one, other, false);
  world.set_cut(other, one, false);
}

// The longest time without a commit anywhere, from `since` on.
inline Duration longest_gap(const JobWorld& world, Duration since,
                            Duration until = std::chrono::hours(1)) {
  Duration longest{};
  Time last = Time{} + since;
  for (const auto& [step, when] : world.commit_times()) {
    if (when > last && last < Time{} + until) longest = std::max(longest, when - last);
    last = std::max(last, when);
  }
  return longest;
}

}  // namespace gpunode::sim
