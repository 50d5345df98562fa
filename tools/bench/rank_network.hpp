// RankNetwork: a network of its own for the ranks of a benchmark, in which each has one interface
// of limited speed: a network namespace a rank, joined by a bridge, what each sends limited by tc's
// token bucket (tbf). Needs root. The namespaces belong to sleeping child processes and go with
// them, so nothing is left behind however the benchmark ends.
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
    std::uint64_t bits_a_second = 1'000'000'000;  // that each rank can send
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
  static std::string address(std::uint32_t rank);

 private:
  RankNetwork() = default;
  Result<pid_t> hold_namespace(const std::string& congestion);

  pid_t bridge_ = 0;
  std::vector<pid_t> ranks_;
  std::vector<pid_t> held_;
};

}  // namespace gpunode::bench
