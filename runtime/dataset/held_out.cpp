#include "runtime/dataset/held_out.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/rng.hpp"

namespace gpunode::dataset {

std::vector<bool> draw_held_out(std::uint64_t count, double fraction) {
  constexpr std::uint64_t kSeed = 0x68656c64;
  std::vector<bool> held(count);
  if (!(fraction > 0) || count < 2) return held;
  const auto wanted =
      static_cast<std::uint64_t>(std::llround(fraction * static_cast<double>(count)));
  const std::uint64_t drawn = std::clamp<std::uint64_t>(wanted, 1, count - 1);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> order;
  order.reserve(count);
  for (std::uint64_t part = 0; part < count; ++part) order.emplace_back(mix(kSeed, part), part);
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(drawn) - 1,
                   order.end());
  for (std::uint64_t at = 0; at < drawn; ++at) held[order[at].second] = true;
  return held;
}

}  // namespace gpunode::dataset
