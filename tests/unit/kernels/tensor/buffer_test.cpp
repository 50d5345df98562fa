#include "kernels/tensor/buffer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "kernels/tensor/workspace.hpp"

namespace gpunode::tensor {
namespace {

TEST(BufferPool, ReusesAPieceOfTheSameSizeClass) {
  BufferPool pool(host_memory(), 1 << 20);
  void* first = nullptr;
  {
    auto buffer = pool.take(10000);
    ASSERT_TRUE(buffer);
    first = buffer->data();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
    EXPECT_GE(pool.in_use_bytes(), 10000u);
  }
  EXPECT_EQ(pool.in_use_bytes(), 0u);
  EXPECT_GT(pool.held_bytes(), 0u);
  auto again = pool.take(10000);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->data(), first);
}

TEST(BufferPool, RefusesBeyondItsBudgetAndSaysHowMuchIsInUse) {
  BufferPool pool(host_memory(), 100000);
  auto most = pool.take(80000);
  ASSERT_TRUE(most);
  auto more = pool.take(40000);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(more.error().detail.find("100000"), std::string::npos) << more.error().detail;
  *most = Buffer();
  EXPECT_TRUE(pool.take(40000)) << "what came back can be used for another size";
  EXPECT_LE(pool.held_bytes(), 100000u);
}

TEST(BufferPool, RefusesASizeThatIsNearTheEndOfTheNumbers) {
  BufferPool pool(host_memory(), 1 << 20);
  auto buffer = pool.take(std::numeric_limits<std::size_t>::max() - 5);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, ErrorCode::out_of_memory);
}

TEST(BufferPool, MayDieBeforeItsBuffers) {
  Buffer survivor;
  {
    BufferPool pool(host_memory(), 1 << 20);
    survivor = std::move(*pool.take(5000));
  }
  survivor.as<char>()[4999] = 1;
  EXPECT_EQ(survivor.size(), 5000u);
}

TEST(Workspace, TakesBackWhatAScopeHandedOut) {
  BufferPool pool(host_memory(), 1 << 20);
  Workspace workspace(pool);
  ASSERT_TRUE(workspace.reserve(4096));
  float* first = nullptr;
  {
    Workspace::Scope scope(workspace);
    first = workspace.take<float>(100);
    float* second = workspace.take<float>(100);
    ASSERT_TRUE(first && second);
    EXPECT_GE(second, first + 100);
    EXPECT_EQ(workspace.take<float>(100000), nullptr);
  }
  Workspace::Scope scope(workspace);
  EXPECT_EQ(workspace.take<float>(100), first);
}

}  // namespace
}  // namespace gpunode::tensor
