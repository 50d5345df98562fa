// RankNetwork: a network of its own for the ranks of a benchmark, on machines with one interface of
// limited speed each: a network namespace a machine, joined by a bridge, what each sends limited by
// tc's token bucket (tbf); ranks of one machine reach each other without it. Needs root. The
// namespaces belong to sleeping child processes and go with them, so nothing is left behind however
// the benchmark ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace gpunode::bench {

class RankNetwork {
 public:
  struct Options {
    std::uint32_t ranks = 2;
    std::uint32_t machines = 2;                   // which the ranks are spread over, evenly
    std::uint64_t bits_a_second = 1'000'000'000;  // that each machine can send
    // TCP's, "reno"; empty: the machine's own. BBR may take short bursts for the link's speed.
    std::string congestion;
  };
  // Fails with: permission_denied (not root), unsupported (no namespaces, ip or tc, or the
  // congestion control is not allowed).
  static Result<std::unique_ptr<RankNetwork>> create(const Options& options);
  ~RankNetwork();
  RankNetwork(const RankNetwork&) = delete;
  RankNetwork& operator=(const RankNetwork&) = delete;

  // Put in front of a command, it runs on that rank's machine.
  std::vector<std::string> enter(std::uint32_t rank) const;
  std::uint32_t machines() const { return static_cast<std::uint32_t>(machines_.size()); }
  // Neighbouring ranks share a machine.
  static std::uint32_t machine_of(std::uint32_t rank, std::uint32_t ranks, std::uint32_t machines) {
    return rank * machines / ranks;
  }
  static std::string address(std::uint32_t machine);

 private:
  explicit RankNetwork(std::uint32_t ranks) : ranks_(ranks) {}
  Result<pid_t> hold_namespace(const std::string& congestion);

  std::uint32_t ranks_;
  pid_t bridge_ = 0;
  std::vector<pid_t> machines_;
  std::vector<pid_t> held_;
};

}  // namespace gpunode::bench
