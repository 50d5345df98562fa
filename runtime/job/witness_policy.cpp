#include "runtime/job/witness_policy.hpp"

namespace gpunode::job {

std::size_t witnesses_wanted(std::size_t voters, std::size_t available) {
  if (voters == 1) return available >= 2 ? 2 : 0;  // one would only add a node to depend on
  if (voters == 2 && available >= 3) return 3;
  return voters > 0 && voters % 2 == 0 && available >= 1 ? 1 : 0;
}

std::vector<NodeId> choose_witnesses(std::size_t voters, std::vector<NodeId> candidates) {
  candidates.resize(witnesses_wanted(voters, candidates.size()));
  return candidates;
}

}  // namespace gpunode::job
