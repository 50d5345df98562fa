// The floats that are handed around: a partial sum on its way into the all-reduce, a result on its
// way out. Here, so that who computes them need not know how they travel, nor who passes them on
// whether they have come to the host yet.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/block_digest.hpp"
#include "runtime/base/bytes.hpp"

namespace gpunode::collective {

// Consecutive elements of a vector.
struct Elements {
  std::uint64_t first = 0, count = 0;
};

// A device that has the floats of a vector which the host lacks. Thread-safe.
class FloatSource {
 public:
  virtual ~FloatSource() = default;
  // Copies them to their vector, the first time. False: they are lost, and are NaN there.
  virtual bool bring() = 0;
  // block_digest_of() these elements, of which the first and the one behind the last lie at borders
  // of digest blocks, or at the vector's end.
  virtual Digest digest(Elements part) const = 0;
};

// Shared, immutable vector of fp32: a partial sum or a result. Reading it brings it to the host.
class SharedFloats {
 public:
  SharedFloats() = default;
  template <class Vector>
  requires std::convertible_to<std::shared_ptr<Vector>, std::shared_ptr<const std::vector<float>>>
  SharedFloats(std::shared_ptr<Vector> values) : values_(std::move(values)) {}
  // `source` has them; what it does not have, as a tail, is in `values` already.
  SharedFloats(std::shared_ptr<const std::vector<float>> values,
               std::shared_ptr<FloatSource> source)
      : values_(std::move(values)), source_(std::move(source)) {}

  static SharedFloats from(std::vector<float> values) {
    return std::make_shared<const std::vector<float>>(std::move(values));
  }

  explicit operator bool() const { return values_ != nullptr; }
  // The same vector, not an equal one.
  bool operator==(const SharedFloats& other) const { return values_ == other.values_; }
  void reset() { *this = SharedFloats(); }

  std::size_t size() const { return values_->size(); }
  // False: they were lost with the device that had them.
  bool bring() const { return !source_ || source_->bring(); }
  const std::vector<float>& operator*() const {
    bring();
    return *values_;
  }
  // As it is on the host now; its address is the same in any case.
  const std::vector<float>& host() const { return *values_; }
  SharedBytes part(Elements part) const {
    return {values_, bytes_of(std::span<const float>(**this).subspan(part.first, part.count))};
  }
  // block_digest_of() the part, taken where the floats are; borders as FloatSource wants them.
  Digest digest(Elements part) const {
    return source_ ? source_->digest(part) : block_digest_of(this->part(part).view);
  }

 private:
  std::shared_ptr<const std::vector<float>> values_;
  std::shared_ptr<FloatSource> source_;  // null: the host has them
};

}  // namespace gpunode::collective
