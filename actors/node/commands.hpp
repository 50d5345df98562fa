// The commands of a running node that no single actor owns: who am I, who is here.
#pragma once

#include <string>

#include "actors/cluster_state.hpp"
#include "actors/node/entry.hpp"

namespace gpunode::node {

std::string node_info_json(const Entry& entry);
std::string nodes_json(const ClusterSnapshot& cluster, Time now);

}  // namespace gpunode::node
