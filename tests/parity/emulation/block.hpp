// One block of a launch: its lanes, its shared memory, and which warp goes on when. Used by one
// thread of the system at a time, for block after block.
#pragma once

#include <memory>
#include <random>

#include "tests/parity/emulation/engine.hpp"
#include "tests/parity/emulation/fibre.hpp"

namespace gpunode::emulation {

struct Copy {
  std::byte* to;
  const void* from;
  unsigned bytes, read;  // what is not read becomes zero
};

// What lanes must agree on to do an operation together.
struct Meeting {
  Perform perform = nullptr;  // null at a barrier of the block
  unsigned mask = 0;
  Site site;
  bool operator==(const Meeting&) const = default;
};

struct Lane {
  enum class State { ready, at_operation, at_barrier, left };
  Fibre fibre;
  State state = State::left;
  Meeting meeting;                        // where it waits
  void* slot = nullptr;                   // what it hands in there
  std::vector<Copy> open;                 // asynchronous copies that no group has yet
  std::vector<std::vector<Copy>> groups;  // committed, the oldest first
};

class Block {
 public:
  Block() = default;
  Block(const Block&) = delete;
  ~Block();
  Report run(const Launch& launch, unsigned index, const Settings& settings);

 private:
  friend Block& here();
  friend void meet(Perform, void*, unsigned, Site);
  friend void block_barrier(Site);
  friend unsigned lane_number();
  friend void fail(std::string);
  friend std::byte* dynamic_shared();
  friend std::byte* shared_at(unsigned, std::size_t, Site);
  friend void count_bank_conflicts(std::uint64_t);
  friend void copy_async(std::byte*, const void*, unsigned, unsigned, Site);
  friend void commit_copies(Site);
  friend void await_copies(unsigned, Site);

  void prepare(const Launch& launch, unsigned index);
  void prepare_shared(std::size_t bytes);
  bool can_run(unsigned warp) const;
  int choose_warp();
  void run_warp(unsigned warp);
  bool perform_complete(unsigned warp);
  void release_barrier();
  void say_stuck(unsigned warp);
  bool weakened(Site site, Weakness weakness);
  void pause(Lane::State state, const Meeting& meeting);
  static void enter(void* block);

  std::vector<std::unique_ptr<Lane>> lanes_;
  Stacks stacks_;
  std::byte* shared_ = nullptr;  // the mapping, with a page of guard at its end
  std::byte* shared_start_ = nullptr;
  std::size_t shared_bytes_ = 0;
  const Launch* launch_ = nullptr;
  Settings settings_;
  Report report_;
  std::mt19937_64 random_;
  unsigned current_ = 0;  // the lane that runs
  bool failed_ = false;
};

}  // namespace gpunode::emulation
