#include "runtime/base/wire_vector.hpp"

#include <gtest/gtest.h>

#include <array>

namespace gpunode {
namespace {

// As flatbuffers::Vector lies in a message: elements at any place.
template <class Element>
struct FoundVector {
  using value_type = Element;
  const std::uint8_t* data = nullptr;
  std::uint32_t count = 1;
  const std::uint8_t* Data() const { return data; }
  std::uint32_t size() const { return count; }
};
struct Position {
  std::uint64_t epoch;
};

TEST(WireVector, elements_that_lie_badly_are_found_unless_there_are_none) {
  alignas(8) std::array<std::uint8_t, 32> message{};
  const FoundVector<std::uint64_t> good{message.data() + 8}, bad{message.data() + 4},
      empty{message.data() + 4, 0};
  EXPECT_TRUE(lies_aligned(&good));
  EXPECT_FALSE(lies_aligned(&bad));
  EXPECT_TRUE(lies_aligned(&empty));
  EXPECT_TRUE(lies_aligned<FoundVector<std::uint64_t>>(nullptr));
  const FoundVector<const Position*> structs{message.data() + 4};
  EXPECT_FALSE(lies_aligned(&structs));
  const FoundVector<std::uint32_t> narrow{message.data() + 4};
  EXPECT_TRUE(lies_aligned(&narrow));
}

}  // namespace
}  // namespace gpunode
