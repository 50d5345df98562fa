// What the simulated world knows of its nodes' device groups; job_groups.cpp moves it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "runtime/job/job_actions.hpp"
#include "tests/sim/history.hpp"

namespace gpunode::sim {

// A step that goes from device to device, on one node.
struct Carrying {
  std::uint64_t compute_id = 0, step = 0;
  job::Carry wish;
  ViewName view;
  std::vector<collective::TreeNode> done;  // sums that are whole
  bool whole = false, over = false, told = false, goes_on_by_messages = false;
};
struct GroupMember {
  std::size_t node = 0;
  std::uint64_t life = 0;
};
struct Group {
  std::uint16_t size = 0;
  std::map<std::uint16_t, GroupMember> members;  // by rank
  // By step and rank: who has sent its sums, for which Compute.
  std::map<std::uint64_t, std::map<std::uint16_t, std::uint64_t>> posted;
  std::set<std::size_t> told;
};
}  // namespace gpunode::sim
