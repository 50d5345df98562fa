// Tensor: a view of row-major numbers somewhere in a device's memory. Owns nothing; Buffer does.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/tensor/shape.hpp"

namespace gpunode::tensor {

template <class T>
struct View {
  T* data = nullptr;
  Shape shape;

  std::int64_t element_count() const { return shape.element_count(); }
  explicit operator bool() const { return data != nullptr; }
  template <class U>
  requires(std::is_same_v<U, const T> && !std::is_const_v<T>) operator View<U>() const {
    return {data, shape};
  }
};

using Tensor = View<float>;
using ConstTensor = View<const float>;
using TokenTensor = View<const std::int32_t>;

}  // namespace gpunode::tensor
