// Shape: the extents of a tensor, outermost first, at most four; held in place, copied freely.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "runtime/base/check.hpp"

namespace gpunode::tensor {

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents)
      : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const std::int64_t> extents) {
    GPUNODE_CHECK(extents.size() <= kMaxRank, "a tensor has at most four dimensions");
    for (std::int64_t extent : extents) extents_[rank_++] = extent;
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int dimension) const { return extents_[dimension]; }
  std::int64_t element_count() const {
    std::int64_t count = 1;
    for (int dimension = 0; dimension < rank_; ++dimension) count *= extents_[dimension];
    return count;
  }
  bool operator==(const Shape&) const = default;
  std::string text() const {  // "(4, 64, 128)"
    std::string out = "(";
    for (int dimension = 0; dimension < rank_; ++dimension)
      out += (dimension ? ", " : "") + std::to_string(extents_[dimension]);
    return out + ")";
  }

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

// Consecutive elements of a flat vector.
struct ElementRange {
  std::size_t first = 0, count = 0;
  bool operator==(const ElementRange&) const = default;
};

}  // namespace gpunode::tensor
