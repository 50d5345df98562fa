// What codecs read of FlatBuffers that came from elsewhere. The verifier of 2.0.8 looks at the
// alignment of fields, not at that of a vector's elements, and to read those where they lie badly
// is undefined. Nor does it mind that many fields point to the same bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gpunode {

// Whether the elements of a verified flatbuffers::Vector (numbers or structs) may be read; also of
// one that is not there.
template <class Vector>
bool lies_aligned(const Vector* vector) {
  using Element = std::remove_cv_t<std::remove_pointer_t<typename Vector::value_type>>;
  return !vector || vector->size() == 0 ||
         reinterpret_cast<std::uintptr_t>(vector->Data()) % alignof(Element) == 0;
}

// The bytes of a schema's struct of 32; zeros: there is none.
template <class Id>
std::array<std::byte, 32> array_of(const Id* id) {
  std::array<std::byte, 32> value{};
  if (id) std::memcpy(value.data(), id->value()->data(), value.size());
  return value;
}

// How much may be read of a buffer: as much as there is. Where many fields point to the same bytes,
// which no encoder of ours makes them do, a few bytes on the wire would be gigabytes in memory.
class WireBudget {
 public:
  explicit WireBudget(std::size_t bytes) : left_(bytes) {}
  // False: more is read than was sent.
  bool take(std::size_t bytes) {
    const bool there = bytes <= left_;
    left_ -= there ? bytes : left_;
    return there;
  }

 private:
  std::size_t left_;
};

}  // namespace gpunode
