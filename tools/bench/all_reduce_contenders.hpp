// Who takes part in the all-reduce benchmark with a number of ranks: gpunode's modes, the baselines
// they are held against, and the rival libraries that were found when this was built.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/contender.hpp"
#include "tools/bench/rank_network.hpp"

namespace gpunode::bench {

enum class Family : std::uint8_t {
  exact_plain,
  exact_sealed,
  hierarchical,
  ring,  // inexact modes over plain links
  bf16,
  int8,
  topk,
  crypto,      // sealing and opening alone
  zmq_owner,   // bare libzmq, the messages of the exact exchange
  zmq_direct,  // bare libzmq, one message to all
  tcp_ring,    // bare sockets
  gloo,
  gloo_spinning,  // of contenders; their entries are Gloo's
  openmpi
};
// Of another mode than exact, by its name; exact_plain for a name that is none.
Family family_of_mode(const std::string& mode);
inline bool is_peer(Family family) {
  return family == Family::gloo || family == Family::openmpi;
}

// One way of one contender.
struct Entry {
  Contender* contender = nullptr;
  std::uint32_t setting = 0;
  Family family = Family::exact_plain;
  std::string label;
};

class Field {
 public:
  struct Options {
    std::uint32_t ranks = 2;
    bool peers = true;
    bool sealed = true;
    std::vector<std::string> modes;  // besides exact
    // Each rank's own network instead of loopback; gpunode alone takes part. Outlives the field.
    const RankNetwork* network = nullptr;
  };
  // Starts every contender; one that cannot be started is left out with a line on stderr.
  static Field start(const Options& options);

  // The entries that make sense for a vector of that many bytes.
  std::vector<Entry> entries(std::uint64_t bytes) const;

 private:
  void add_gloo();
  void add(ContenderSpec spec, Family family);

  std::uint32_t ranks_ = 0;
  std::vector<std::pair<std::unique_ptr<Contender>, Family>> contenders_;
};

}  // namespace gpunode::bench
