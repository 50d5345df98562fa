// RankBoard: one page of memory that the processes of a group of ranks share with the program that
// measures them. The program posts an order, the ranks carry it out together, and each leaves its
// time. Idle ranks sleep in the kernel, so groups of rival libraries can stand side by side and
// take turns sample by sample without costing one another CPU.
// The page is a file, so ranks need not be forked from the program: mpirun may start them. It lies
// in a folder of its own in /dev/shm where there is one, as writing a page back to a disk would
// stall who writes to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::bench {

inline constexpr std::uint32_t kMaxRanks = 8;

// An all-reduce as one rank does it. `setting` picks among the ways that a library offers.
class RankWork {
 public:
  virtual ~RankWork() = default;
  // Before the first order: reaches the other ranks.
  virtual Result<void> connect() { return {}; }
  // Makes a vector of that many floats ready, reduces it once and checks the result.
  virtual Result<void> prepare(std::uint64_t element_count, std::uint32_t setting) = 0;
  // Called before each run and not timed: what lies between two operations and is not the
  // library's part.
  virtual Result<void> next(std::uint32_t) { return {}; }
  virtual Result<void> run(std::uint32_t setting) = 0;
  // Gives the setting's memory back; without settings left also the vector.
  virtual void release(std::uint32_t setting) = 0;
};

struct Order {
  enum class Kind : std::uint32_t { prepare, run, release, quit };
  Kind kind = Kind::quit;
  std::uint32_t setting = 0;
  std::uint64_t element_count = 0;  // prepare
  std::uint32_t warm_up = 0;        // run: operations before the clock starts
  std::uint32_t batch = 1;          // run: operations that are timed together
};

// What an operation took: seconds of the slowest rank, and of processor in all ranks together,
// which says more than the clock where others use the machine too.
struct Spent {
  double seconds = 0;
  double processor = 0;
};

struct BoardPage;

class RankBoard {
 public:
  // The measuring program's end; the folder goes with the object. Where there is a core for each
  // rank, each keeps to its own, as mpirun has it too. Fails with io_error.
  static Result<std::unique_ptr<RankBoard>> create(std::uint32_t ranks);
  // A rank's end; null, with a line on stderr, where it cannot be opened.
  static std::unique_ptr<RankBoard> open(const std::string& folder);
  ~RankBoard();
  RankBoard(const RankBoard&) = delete;
  RankBoard& operator=(const RankBoard&) = delete;

  std::uint32_t ranks() const;
  // Ranks may leave files here.
  const std::string& folder() const { return folder_; }

  // The program: posts an order, and waits until every rank has carried it out. Gives what an
  // operation took (run only). `alive` is asked now and then. Fails with: timeout, peer_lost (not
  // alive), or what a rank said.
  Result<Spent> carry_out(const Order& order, Duration timeout, const std::function<bool()>& alive);

  // A rank: connects, then carries orders out until quit, a failure, or the end of its parent process.
  int serve(std::uint32_t rank, RankWork& work);
  // All ranks: returns when every rank has come.
  void meet();
  // A line that the other ranks can read after the next meet(), at most 500 bytes.
  void tell(std::uint32_t rank, const std::string& line);
  std::string told(std::uint32_t rank) const;
  // A failure that serve() does not see: the next order fails with it.
  void fail(std::uint32_t rank, const std::string& reason);

 private:
  RankBoard(BoardPage* page, std::string folder, bool owner);
  Result<void> obey(const Order& order, std::uint32_t rank, RankWork& work);

  BoardPage* page_;
  std::string folder_;
  bool owner_;  // removes the folder
};

// Of all threads of this process, in user space and in the kernel.
double processor_seconds();

}  // namespace gpunode::bench
