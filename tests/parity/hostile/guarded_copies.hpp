// An operation apart from everything else: each range it declares is copied to pages of its own, with
// pages that are no one's before and behind, and what it writes is copied back. What it only writes is
// a pattern before, what it only reads is write-protected, and what it did not declare is compared
// afterwards: a byte touched beyond the declaration is found, at the one end always, at the other
// when it is written or its value shows in the result.
// One call long. Costs a few system calls and copies.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops/access.hpp"
#include "runtime/base/bytes.hpp"
#include "tests/parity/hostile/fault_trap.hpp"

namespace gpunode::hostile {

// Which end of a copy lies at a page that is no one's.
enum class Guard { none, behind, before };

class GuardedCopies {
 public:
  GuardedCopies(std::span<const ops::Access> accesses, std::size_t scratch_bytes, Guard guard);
  ~GuardedCopies();
  GuardedCopies(const GuardedCopies&) = delete;
  GuardedCopies& operator=(const GuardedCopies&) = delete;

  std::byte* copy_of(const std::byte* data) const;  // of a byte that some access has
  MutableByteView scratch() const { return {scratch_, scratch_bytes_}; }
  MutableByteView all() const { return {memory_, memory_bytes_}; }
  // Copies back what was written. What was done beyond the declaration, if anything.
  std::optional<std::string> finish(const FaultTrap::Fault& fault);

 private:
  struct Cluster {  // accesses that overlap, or are of one field
    std::vector<ops::Access> accesses;
    const std::byte *begin = nullptr, *end = nullptr;
    std::byte *pages = nullptr, *pages_end = nullptr, *copy = nullptr;
    Bytes before = {};  // the pages, as the operation found them

    bool is_written() const;
    std::string fields() const;
  };
  void place(Cluster& cluster, std::byte* pages, Guard guard);
  std::string text_of(const FaultTrap::Fault& fault) const;
  static std::optional<std::string> compare(const Cluster& cluster);

  std::vector<Cluster> clusters_;
  std::byte* memory_ = nullptr;
  std::size_t memory_bytes_ = 0;
  std::byte* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace gpunode::hostile
