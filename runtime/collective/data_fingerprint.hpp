// Which samples stand behind a sum: told beside it, so that members find out that they computed
// from other data, and the job can prove what it was trained on.
#pragma once

#include <cstdint>

#include "runtime/base/digest.hpp"

namespace gpunode::collective {

// Which samples stand behind a sum: hash sum over (sample index, bytes) and the number of samples.
struct DataFingerprint {
  Digest hash_sum;
  std::uint64_t sample_count = 0;
  bool operator==(const DataFingerprint&) const = default;
  DataFingerprint& operator+=(const DataFingerprint& other) {
    hash_sum += other.hash_sum;
    sample_count += other.sample_count;
    return *this;
  }
};

}  // namespace gpunode::collective
