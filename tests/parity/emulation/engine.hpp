// Runs the blocks of a launch on the host: each CUDA thread is a fibre, called a lane as in a warp
// of 32, and blocks are spread over threads of the system. A lane runs until its next warp
// operation or barrier; the last to arrive performs it for all. Lanes of a warp that meet different
// operations, a barrier that not all of a block reach, an address outside shared memory: the launch
// fails and says where.
//
// What a GPU may do in any order is done in several: the schedule says which warp runs next, and
// asynchronous copies land at once or only when they are waited for. A kernel whose result depends
// on either is wrong. What is not emulated: memory order between warps that run at the same time,
// masks of lanes that have left, speed, limits of registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace gpunode::emulation {

inline constexpr unsigned kWarp = 32;
inline constexpr std::size_t kStaticShared = 48 << 10;   // more needs cudaFuncSetAttribute
inline constexpr std::size_t kLargestShared = 99 << 10;  // of a block on sm_120, the least of ours

enum class Schedule { first_warp, last_warp, random };
enum class Landing { at_once, at_wait };  // of asynchronous copies
enum class Rounding { hopper, ampere };   // of mma.sync, see tensor_core.hpp

// A place in a kernel's source.
struct Site {
  const char* file = "";
  int line = 0;
  bool operator==(const Site&) const = default;
};

// What a mutation can break at one line: a barrier or a commit that is left out, a wait that leaves
// one group of copies more under way.
enum class Weakness { none, barrier, commit, wait };
using Point = std::pair<int, Weakness>;  // line and kind

struct Settings {
  Schedule schedule = Schedule::first_warp;
  std::uint64_t seed = 1;  // of the random schedule
  Landing landing = Landing::at_once;
  Rounding rounding = Rounding::hopper;
  Point weakened = {0, Weakness::none};
};
// Of launches from now on; not to be changed while one runs.
Settings& settings();

struct Report {
  std::string error;  // of the first block that failed; empty if none did
  std::uint64_t warp_operations = 0, barriers = 0;
  std::uint64_t bank_conflicts = 0;  // of ldmatrix: passes beyond the one that each part needs
  std::set<Point> points = {};       // where the kernel could be weakened
};
// Of launches since it was last cleared, summed; the first error stays.
Report& report();

struct Extent {
  unsigned x = 0, y = 1, z = 1;
};

struct Launch {
  unsigned blocks = 0, threads = 0;
  std::size_t shared_bytes = 0;  // dynamic shared memory
  const void* kernel = nullptr;  // for what set_shared_limit allowed it
  std::function<void()> run;     // what each lane runs
};
// False if a block failed, or the launch would have; report() says why.
bool run(const Launch& launch);
void set_shared_limit(const void* kernel, std::size_t bytes);

// For the operations in warp_operations.hpp, called by lanes:

// Performs one operation for lanes that all wait at it; slots[lane] is what each handed in.
using Perform = void (*)(void* const* slots, unsigned mask);
// Returns when all lanes of `mask` are at the same operation, line and mask, and it is performed.
void meet(Perform perform, void* slot, unsigned mask, Site site);
void block_barrier(Site site);
unsigned lane_number();
// The lane is abandoned here: nothing on its stack is destroyed, so the message is taken over.
[[noreturn]] void fail(std::string message);
// The dynamic shared memory of this lane's block; NaN at the start of a block.
std::byte* dynamic_shared();
// The address of `bytes` at an offset from its start, which the caller may not leave.
std::byte* shared_at(unsigned offset, std::size_t bytes, Site site);
void count_bank_conflicts(std::uint64_t passes);
void copy_async(std::byte* to, const void* from, unsigned bytes, unsigned read, Site site);
void commit_copies(Site site);
void await_copies(unsigned left, Site site);

}  // namespace gpunode::emulation
