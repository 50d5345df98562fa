// How many witnesses a job takes, and which. A witness votes and does not compute; with it the
// number of votes is odd, so that any one node may be lost. Pure; a few lines that several must
// agree on.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/base/ids.hpp"

namespace gpunode::job {

// For that many members that vote, with that many nodes to choose from: one member takes two and
// two take three, so that the members alone are no quorum; more members take one where they are
// even.
std::size_t witnesses_wanted(std::size_t voters, std::size_t available);

// The first of `candidates` (in order of preference) in that number.
std::vector<NodeId> choose_witnesses(std::size_t voters, std::vector<NodeId> candidates);

}  // namespace gpunode::job
