// The independent proof of what a job was fed. A job's running sum is made while it trains, slice
// by slice, on many members; this file recomputes it from the data alone, in another order and by
// separate code: it calls neither Sampler, Shuffle, the data sets nor sample_hash. Per data_epoch it
// marks the samples of all used positions in a bitmap, then walks the bitmap in the order of the
// data and adds the hashes of what is marked. A sample marked twice is found on the way.
// Cost: about 300 ns a sample on one thread, and N/8 bytes of memory.
#pragma once

#include <cstdint>

#include "runtime/base/digest.hpp"
#include "runtime/base/result.hpp"
#include "runtime/dataset/text_source.hpp"

namespace gpunode::dataset {

struct ScanSettings {
  std::uint64_t seed = 1;
  std::uint32_t batch = 1;
  std::uint64_t steps = 0;        // steps [0, steps) were committed
  bool table = false;             // rows of numbers; else text or tokens, and:
  std::uint32_t token_bytes = 1;  // 1: text; 2, 4: tokens of so many bytes, samples of i32
  std::uint32_t context = 64;
  std::uint32_t stride = 1;
  double validation_fraction = 0.1;
};

struct Proof {
  Digest sum;                      // to be compared with the job's running sum
  std::uint64_t samples = 0;       // fed in all: batch * steps
  std::uint64_t sample_count = 0;  // N, samples in an epoch
  std::uint64_t repeated = 0;      // uses of a sample beyond the first within one epoch; must be 0
  bool each_once() const { return repeated == 0; }
};

// Recomputes the sum of steps [0, settings.steps). Fails with invalid_argument for settings that no
// job can have on this data.
Result<Proof> scan_sum(const TextSource& source, const ScanSettings& settings);

}  // namespace gpunode::dataset
