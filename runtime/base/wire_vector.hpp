// A check of FlatBuffers that came from elsewhere: the verifier of 2.0.8 looks at the alignment of
// fields, not at that of a vector's elements, and to read those where they lie badly is undefined.
#pragma once

#include <cstdint>
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

}  // namespace gpunode
