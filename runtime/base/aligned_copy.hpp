// Received bytes at an address that a reader of binary formats may assume. Frames of a link begin
// at any address, and a verifier that checks alignment relative to the buffer's start does not see
// that. Cost: one copy of what is a small header.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/base/bytes.hpp"

namespace gpunode {

class AlignedCopy {
 public:
  explicit AlignedCopy(ByteView bytes) : words_((bytes.size() + 7) / 8), size_(bytes.size()) {
    if (!bytes.empty()) std::memcpy(words_.data(), bytes.data(), bytes.size());
  }
  const std::uint8_t* data() const { return reinterpret_cast<const std::uint8_t*>(words_.data()); }
  std::size_t size() const { return size_; }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t size_;
};

// The bytes of a finished builder of such a format.
template <class Builder>
Bytes finished_bytes(const Builder& builder) {
  return to_bytes(
      {reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize()});
}

}  // namespace gpunode
