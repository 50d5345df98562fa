// What a training sample consists of: named tensors, one behind the other, as a data set has them
// and a model reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace gpunode {

enum class SampleDtype : std::uint8_t { u8, i32, f32 };  // little-endian

struct SampleField {
  std::string name;
  SampleDtype dtype = SampleDtype::u8;
  std::uint32_t count = 0;  // elements

  std::size_t bytes() const {
    return count * (dtype == SampleDtype::u8 ? std::size_t{1} : std::size_t{4});
  }
  bool operator==(const SampleField&) const = default;
};

inline std::size_t bytes_of(const std::vector<SampleField>& fields) {
  std::size_t sum = 0;
  for (const SampleField& field : fields) sum += field.bytes();
  return sum;
}

// "features f32[64], label i32[1]"
inline std::string to_text(const std::vector<SampleField>& fields) {
  constexpr const char* kNames[] = {"u8", "i32", "f32"};
  std::string text;
  for (const SampleField& field : fields) {
    const auto dtype = static_cast<std::size_t>(field.dtype);
    text += (text.empty() ? "" : ", ") + field.name + " " +
            (dtype < std::size(kNames) ? kNames[dtype] : "of no known type") + "[" +
            std::to_string(field.count) + "]";
  }
  return text;
}

}  // namespace gpunode
