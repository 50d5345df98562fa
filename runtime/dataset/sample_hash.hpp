// The hash of one fed sample. Sums of it (Digest +=) do not depend on order or on who computed, so
// the sum over all members' slices proves which samples, with which bytes, a job was fed.
#pragma once

#include <cstdint>

#include "runtime/base/digest.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::dataset {

// XXH3-128 of the sample's bytes under a seed made of (sample, data_epoch).
inline Digest sample_hash(std::uint64_t sample, std::uint64_t data_epoch, ByteView bytes) {
  return digest_of(bytes, mix(sample, data_epoch));
}

}  // namespace gpunode::dataset
