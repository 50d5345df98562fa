// The hostile device: a backend that computes like the CPU, with its bits, and treats its users like a
// GPU at its worst, so that a program that is right here keeps its numbers on the device and waits
// for what it needs.
//   memory     the host cannot read or write it: following one of its addresses kills the process
//   streams    threads that run what was queued late, in order, at random speed from a seed
//   upload     reads its source when the copy runs, and notices one that changed meanwhile
//   download   fills its destination with a pattern until the copy has run
//   staging    a piece of page-locked memory that is used again before its copy has run is found, as
//              any other source that changed; it stays where it is as long as the device
//   operations every address must be the device's, in a live piece; each is known by name, with what
//              it reads and writes (kernels/ops/access.hpp); on demand each runs on guarded
//              copies, and may touch nothing else
//   replays    what was noted is made call by call, as if it were queued anew; nothing may wait in it
//   order      two calls that meet in memory, at least one writing, and that no synchronise() and no
//              event orders are a fault, which names both; so is memory released before its last use
// Every fault is the error of the call that made it, where there is one, of every later synchronise(),
// and the first of report().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "kernels/ops/backend.hpp"
#include "tests/parity/hostile/guarded_copies.hpp"
#include "tests/parity/hostile/late_queue.hpp"

namespace gpunode::hostile {

inline constexpr std::size_t kStagingPieceBytes = 4096;

struct Options {
  std::uint64_t seed = 1;
  Pace pace = Pace::random;
  Guard guard = Guard::none;  // whether operations run on guarded copies of their arguments
  std::uint64_t memory_bytes = 1ull << 30;
  // Of a copy by way of page-locked memory: small, so that a tiny model's copies take many.
  std::size_t staging_piece_bytes = kStagingPieceBytes;
  bool notes_work = true;
  // What does the arithmetic: the CPU's operations, or a test's in their place.
  std::optional<ops::Operations> arithmetic = {};
  // A wait by its name (wait_name.hpp) that does not wait: what it was for must then be found. Copies
  // of the host's memory that had not run by then leave that memory alone for good, as its owner
  // may give it away.
  std::string removed_wait = {};
};

// Where the waits of one name stand, and how often they were met.
struct Wait {
  std::string file;
  std::set<std::uint32_t> lines;
  std::uint64_t count = 0;
};

struct Report {
  std::string first_error;  // empty: no fault
  std::uint64_t operations = 0, copies = 0, clears = 0, uploads = 0, downloads = 0;
  std::uint64_t bytes_up = 0, bytes_down = 0;
  std::uint64_t noted = 0, replayed = 0;                 // pieces of work
  std::map<std::string, Wait> host_waits, stream_waits;  // by name; removed ones too

  std::uint64_t host_wait_count() const;
};

class HostileBackend : public ops::Backend {
 public:
  virtual Report report() const = 0;
  virtual std::uint64_t staging_bytes() const = 0;  // of page-locked memory, ever allocated
  // Says that the host reads these bytes of its own now, e.g. sends what was downloaded to them.
  // Fails with: internal, when a download to them may not have run yet.
  virtual Result<void> host_reads(ByteView bytes) = 0;
};

// Fails with: internal (the system gave no addresses).
Result<std::unique_ptr<HostileBackend>> open_backend(const Options& options = {});

}  // namespace gpunode::hostile
