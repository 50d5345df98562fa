// Which replica of a name gets the next call: of two drawn at random the one that is expected to answer
// sooner, by how long it took to answer lately, its distance included, and by how many calls it has from
// here. Calls with one affinity have one replica of their own, and go elsewhere only where that is
// expected to be much sooner. Who took long is forgotten by and by, and so asked again. Pure; one thread.
// Source: Mitzenmacher, The power of two choices in randomized load balancing (2001); rendezvous hashing,
// Thaler and Ravishankar (1998).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::node {

class ReplicaChoice {
 public:
  explicit ReplicaChoice(std::uint64_t seed) : rng_(seed) {}

  // Puts the one that is to be asked first, the others behind it in random order.
  void arrange(std::vector<NodeId>& replicas, const std::string& name,
               std::optional<std::uint64_t> affinity, Time now);
  // A call went to the replica; and ended there, answered or not.
  void sent(const std::string& name, const NodeId& replica);
  void ended(const std::string& name, const NodeId& replica, Time now,
             std::optional<Duration> answered_in);

 private:
  struct Record {
    double seconds = 0;  // that it takes to answer; 0: not known
    Time at{};           // when it answered last
    std::size_t under_way = 0;
  };
  double expected(const std::string& name, const NodeId& replica, Time now) const;

  Rng rng_;
  std::map<std::pair<std::string, NodeId>, Record> records_;
};

}  // namespace gpunode::node
