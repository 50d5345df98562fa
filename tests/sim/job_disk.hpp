// A simulated node's disk as far as its votes go: the product's durable record in the in-memory
// file system. At a crash the writes under way are lost, cut short or through, and what was not yet
// synced is gone or torn. Owner: one node of a JobWorld; it outlives the node's lives.
#pragma once

#include <deque>

#include "runtime/base/rng.hpp"
#include "runtime/storage/durable_record.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::sim {

class VoteDisk {
 public:
  // Rules of storage that a test breaks to see that the checks notice.
  struct Mutations {
    bool no_sync = false;       // a vote is answered before its file is synced
    bool torn_is_none = false;  // a vote file that cannot be read counts as one never written
  };
  struct Options {
    std::uint64_t seed = 1;
    // Share of the writes cut by a crash whose name reaches the disk before its contents, as on a
    // disk that lies about syncs: the old file is gone then, the new one torn.
    double names_first = 0.0;
    Mutations mutations;
  };
  explicit VoteDisk(Options options);

  // Returns once the votes survive power loss; whoever has waited for that may answer.
  void store(const Bytes& votes);
  // Power loss while these were waiting to be written, in order; so many had got through.
  void crash(const std::deque<Bytes>& under_way, std::size_t through);
  // What the next life finds: empty for none. Fails with: corrupted.
  Result<Bytes> load();
  // A person puts back a copy of the last votes that anybody was answered by.
  void restore();
  // A new disk.
  void wipe();
  // The last votes that anybody may have been answered by.
  const Bytes& answered() const { return answered_; }

  // Faults that have struck.
  std::uint64_t lost() const { return lost_; }  // writes that never began
  std::uint64_t cut() const { return cut_; }    // writes that a crash cut short
  std::uint64_t torn() const { return torn_; }  // files that were found torn

 private:
  storage::DurableRecord record(storage::FileSystem& files) const;
  void store_unsynced(const Bytes& votes);

  Options options_;
  Rng rng_;
  testing::MemoryFileSystem files_;
  Bytes answered_;
  std::uint64_t lost_ = 0, cut_ = 0, torn_ = 0;
};

}  // namespace gpunode::sim
