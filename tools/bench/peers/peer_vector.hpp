// The vector that a peer library reduces in place, and the check of its first sum: rank r brings
// r + 1 in each place. While time is measured it holds zeros, so that sums in place do not grow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace gpunode::bench {

class PeerVector {
 public:
  void resize(std::uint64_t element_count) { values_.resize(element_count); }
  void clear() { std::vector<float>().swap(values_); }
  void fill(float value) { std::fill(values_.begin(), values_.end(), value); }
  float* data() { return values_.data(); }
  std::size_t size() const { return values_.size(); }

  // So many elements, whose sum over all ranks by `reduce` is right; then zeros.
  template <class Reduce>
  Result<void> prepare(std::uint64_t element_count, std::uint32_t rank, std::uint32_t ranks,
                       const Reduce& reduce) {
    resize(element_count);
    fill(static_cast<float>(rank + 1));
    if (Result<void> done = reduce(); !done) return done;
    if (Result<void> right = check_sum(ranks); !right) return right;
    fill(0);
    return {};
  }

  Result<void> check_sum(std::uint32_t ranks) const {
    const auto wanted = static_cast<float>(ranks * (ranks + 1) / 2);
    for (std::size_t place = 0; place < values_.size(); ++place)
      if (values_[place] != wanted)
        return Error{ErrorCode::corrupted, "wrong sum at " + std::to_string(place) + ": " +
                                               std::to_string(values_[place])};
    return {};
  }

 private:
  std::vector<float> values_;
};

}  // namespace gpunode::bench
