// Which parts of the data are held out: a draw that depends on nothing but their number, so that
// every job and every node holds out the same. The end of a file is often unlike the rest of it.
#pragma once

#include <cstdint>
#include <vector>

namespace gpunode::dataset {

// For each of `count` parts whether it is held out: the round(fraction * count) of them whose
// mix(0x68656c64, part) are smallest; at least one and not all, where fraction > 0 and count > 1.
// Cost: 16 bytes a part for a moment.
std::vector<bool> draw_held_out(std::uint64_t count, double fraction);

}  // namespace gpunode::dataset
