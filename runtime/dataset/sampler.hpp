// Which samples a slice of a step consumes: a pure function of the job's settings, of nothing that
// happened. Steps count from 0: step s consumes positions [s*B, (s+1)*B), slice g of it positions
// s*B + [floor(g*B/G), floor((g+1)*B/G)), so G need not divide B, nor B an epoch. A position is a
// (data_epoch, place) pair, position = data_epoch * N + place, and the shuffle of that epoch says
// which of the N samples stands there: each is used exactly once an epoch.
// Cost: one shuffle look-up (some 70 ns) a sample. Immutable; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace gpunode::dataset {

struct SamplerSettings {
  std::uint64_t seed = 1;
  std::uint64_t sample_count = 0;  // N > 0
  std::uint32_t batch = 1;         // B > 0, samples a step over all slices
  std::uint32_t slices = 1;        // G > 0; slices may be empty where G > B
};

struct SamplePlace {
  std::uint64_t data_epoch = 0;
  std::uint64_t sample = 0;  // index in [0, N)

  bool operator==(const SamplePlace&) const = default;
};

struct PositionRange {
  std::uint64_t begin = 0, end = 0;

  bool operator==(const PositionRange&) const = default;
};

class Sampler {
 public:
  explicit Sampler(SamplerSettings settings);

  // slice < G.
  PositionRange positions(std::uint64_t step, std::uint32_t slice) const;
  SamplePlace place_of(std::uint64_t position) const;
  // The samples of a slice, in position order.
  std::vector<SamplePlace> samples(std::uint64_t step, std::uint32_t slice) const;

 private:
  SamplerSettings settings_;
};

}  // namespace gpunode::dataset
