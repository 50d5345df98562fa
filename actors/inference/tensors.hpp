// Numbers and texts of named tensors (infer_codec.hpp). A tensor is whole; no state.
#pragma once

#include <cstring>
#include <span>

#include "actors/inference/infer_codec.hpp"

namespace gpunode::inference {

template <class Number>
InferTensor tensor_of(const char* name, TensorKind kind, std::vector<std::int64_t> shape,
                      const std::vector<Number>& values) {
  return {name, kind, std::move(shape), to_bytes(std::as_bytes(std::span(values)))};
}

template <class Number>
std::vector<Number> values_of(const InferTensor& tensor) {
  std::vector<Number> values(tensor.data.size() / sizeof(Number));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

// Of kind bytes.
inline InferTensor texts_tensor(const char* name, const std::vector<std::string>& texts) {
  InferTensor tensor{name, TensorKind::bytes, {static_cast<std::int64_t>(texts.size())}, {}};
  for (const std::string& text : texts) {
    const auto size = static_cast<std::uint32_t>(text.size());
    const ByteView length = std::as_bytes(std::span(&size, 1)), bytes = as_bytes(text);
    tensor.data.insert(tensor.data.end(), length.begin(), length.end());
    tensor.data.insert(tensor.data.end(), bytes.begin(), bytes.end());
  }
  return tensor;
}
inline std::vector<std::string> elements_of(const InferTensor& tensor) {
  std::vector<std::string> texts;
  for (ByteView left = tensor.data; left.size() >= sizeof(std::uint32_t);) {
    std::uint32_t size = 0;
    std::memcpy(&size, left.data(), sizeof size);
    left = left.subspan(sizeof size);
    texts.emplace_back(as_text(left.first(size)));
    left = left.subspan(size);
  }
  return texts;
}

}  // namespace gpunode::inference
