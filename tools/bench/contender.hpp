// Contender: the processes of one library (or of gpunode in one mode) that do an all-reduce among
// themselves when told. Started once for a number of ranks, then asked for samples in turn with the
// others, so that whatever else the machine does hits all of them alike.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/rank_board.hpp"

namespace gpunode::bench {

// From then on SIGINT, SIGTERM and SIGHUP make every contender fail, so that the program ends in
// order and leaves neither processes nor files behind.
void watch_interrupts();
bool interrupted();

// Goes with this process. What it prints is dropped, but where GPUNODE_BENCH_VERBOSE is set.
pid_t start_process(const std::vector<std::string>& command);

struct ContenderSpec {
  std::string name;                   // "gloo", "openmpi ring", "gpunode exact plain"
  std::vector<std::string> settings;  // by number; {""} if there is only one way
  // The command of a rank; its last two words, the board's folder and the rank, are added.
  std::vector<std::string> command;
  // One command starts all ranks, which know their numbers themselves: only the folder is added.
  bool one_command = false;
  // Put in front of rank r's command: enters its network namespace. May be empty.
  std::vector<std::vector<std::string>> prefix;
};

class Contender {
 public:
  // Starts the processes. Fails with: io_error.
  static Result<std::unique_ptr<Contender>> start(ContenderSpec spec, std::uint32_t ranks);
  // Tells the ranks to end, and ends those that do not.
  ~Contender();

  const ContenderSpec& spec() const { return spec_; }
  // "gloo ring_chunked".
  std::string label(std::uint32_t setting) const;
  // After a failure the contender is broken(): every later call fails with the same.
  Result<void> prepare(std::uint64_t element_count, std::uint32_t setting);
  Result<Spent> sample(std::uint32_t setting, std::uint32_t warm_up, std::uint32_t batch);
  void release(std::uint32_t setting);
  bool broken() const { return failure_.has_value(); }

 private:
  Contender(ContenderSpec spec, std::unique_ptr<RankBoard> board);
  Result<Spent> order(const Order& order);
  bool alive();

  ContenderSpec spec_;
  std::unique_ptr<RankBoard> board_;
  std::vector<pid_t> processes_;
  Duration timeout_{};
  std::optional<Error> failure_;
};

}  // namespace gpunode::bench
