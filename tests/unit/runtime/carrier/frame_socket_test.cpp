#include "runtime/carrier/frame_socket.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

namespace gpunode::carrier {
namespace {

std::array<Descriptor, 2> pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

TEST(FrameSocket, brings_frames_longer_than_the_socket_holds) {
  auto [one, other] = pair();
  FrameSocket here(std::move(one)), there(std::move(other));
  Bytes body(3'000'001);
  for (std::size_t at = 0; at < body.size(); ++at) body[at] = static_cast<std::byte>(at * 7);
  std::thread sender([&] { EXPECT_TRUE(here.send({5, body}, kNever)); });
  const auto got = there.receive(kNever);
  sender.join();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->kind, 5u);
  EXPECT_TRUE(got->body == body);
}

TEST(FrameSocket, a_deadline_ends_a_wait_for_a_frame_and_for_room) {
  auto [one, other] = pair();
  FrameSocket here(std::move(one)), there(std::move(other));
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  EXPECT_EQ(there.receive(soon).error().code, ErrorCode::timeout);
  EXPECT_EQ(here.send({1, Bytes(kMaxBodyBytes)}, soon).error().code, ErrorCode::timeout);
}

TEST(FrameSocket, a_length_that_no_frame_has_is_refused_before_memory_is_taken) {
  auto [one, other] = pair();
  const std::uint32_t head[2] = {1, kMaxBodyBytes + 1};
  ASSERT_EQ(::send(one.get(), head, sizeof head, 0), static_cast<ssize_t>(sizeof head));
  FrameSocket there(std::move(other));
  EXPECT_EQ(there.receive(kNever).error().code, ErrorCode::corrupted);
  EXPECT_EQ(there.send({1, Bytes(kMaxBodyBytes + 1)}, kNever).error().code,
            ErrorCode::invalid_argument);
}

TEST(FrameSocket, closing_wakes_both_ends) {
  auto [one, other] = pair();
  FrameSocket here(std::move(one)), there(std::move(other));
  std::thread closer([&] { here.close_both_ways(); });
  EXPECT_EQ(there.receive(kNever).error().code, ErrorCode::unavailable);
  EXPECT_EQ(here.receive(kNever).error().code, ErrorCode::unavailable);
  EXPECT_EQ(here.send({1, {}}, kNever).error().code, ErrorCode::unavailable);
  closer.join();
}

}  // namespace
}  // namespace gpunode::carrier
