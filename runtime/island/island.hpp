// This machine's part in sums by the GPUs of all members of a view (mode nccl). NCCL and the driver
// below it can hang in ways that no call of theirs ends, so they live in a child process, the rank
// process: this program again, as `gpunode nccl-rank`. Everything asked of it has a deadline, after
// which it is killed and the loss told. It dies with its node, however that ends.
//
// A thread of this object's own starts, asks and kills; the vectors go through one anonymous memory
// file that both processes map, orders and answers through a socket pair
// (detail/rank_protocol.hpp). Cost: that thread, a process with a CUDA context, a vector in shared
// memory and one on the GPU; a copy each way a sum. Owner: the job actor, from its own thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/collective/exact_exchange.hpp"
#include "runtime/collective/island_offer.hpp"
#include "runtime/collective/sum_program.hpp"

namespace gpunode::island {

// How a rank process is started, and what it opens.
struct RankProgram {
  std::vector<std::string> command;  // file and arguments; empty: this program has none
  std::string nccl = "libnccl.so.2";
  std::string driver = "libcuda.so.1";
};

// How long each thing may take.
struct Patience {
  Duration open = std::chrono::seconds(30);
  Duration name = std::chrono::seconds(10);
  Duration join = std::chrono::seconds(60);
  Duration sum = std::chrono::seconds(5);  // and the time of the bytes at the least speed
};
// The least speed that a sum is expected to have: a vector crosses each machine's link about twice,
// and 100 Mbit/s are a usable network for it.
inline constexpr std::uint64_t kSumBytesPerSecondOnOneHost = 100'000'000;
inline constexpr std::uint64_t kSumBytesPerSecond = 5'000'000;
Duration sum_time(const Patience& patience, std::uint64_t bytes, bool one_host);

struct Place {
  std::uint16_t rank = 0;
  std::uint16_t member_count = 1;
  std::uint16_t place_on_host = 0;  // which of the machine's GPUs, counted around
  bool one_host = false;
};

class Island {
 public:
  struct Options {
    RankProgram program;
    Patience patience = {};
    std::uint64_t element_count = 0;
    collective::AddFn add;                             // called on this object's thread
    std::function<void(collective::IslandNews)> tell;  // on this object's thread
  };
  explicit Island(Options options);
  // Never waits: the thread kills the process and ends by itself. Neither `add` nor `tell` is
  // called after this, nor lives on.
  ~Island();
  Island(const Island&) = delete;
  Island& operator=(const Island&) = delete;

  // All return at once; `tell` answers. start: makes all earlier void, also what is under way.
  void start(std::uint64_t formation);
  void make_name(bool one_host);
  void join(Bytes name, const Place& place);
  void sum(std::uint64_t order, collective::IslandSum sum);
  void end();

 private:
  struct State;
  std::shared_ptr<State> state_;  // the thread has it too
};

// What tells this machine from others, for members that meet: its boot and its network.
Digest host_digest();

}  // namespace gpunode::island
