#include "runtime/carrier/carrier_protocol.hpp"

#include <gtest/gtest.h>

namespace gpunode::carrier {
namespace {

MoveOrder a_move() {
  return {.sends = {{0, 16, 7}, {2, 32, 1}}, .receives = {{1, 0, 3}}};
}

TEST(CarrierProtocol, orders_come_back_as_they_were_written) {
  const auto open = read_open(write(OpenOrder{.pci_bus_id = "0000:0a:00.0"}));
  ASSERT_TRUE(open);
  EXPECT_EQ(open->protocol, kProtocol);
  EXPECT_EQ(open->pci_bus_id, "0000:0a:00.0");
  const auto join = read_join(write(JoinOrder{1, 3, to_bytes(as_bytes("here"))}));
  ASSERT_TRUE(join);
  EXPECT_EQ(join->rank, 1);
  EXPECT_EQ(join->size, 3);
  EXPECT_EQ(as_text(join->invite), "here");
  RegionOrder region{.bytes = 77};
  region.handle[63] = std::byte{9};
  const auto again = read_region(write(region));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->bytes, 77u);
  EXPECT_EQ(again->handle, region.handle);
  const auto move = read_move(write(a_move()));
  ASSERT_TRUE(move);
  ASSERT_EQ(move->sends.size(), 2u);
  ASSERT_EQ(move->receives.size(), 1u);
  EXPECT_EQ(move->sends[1].peer, 2u);
  EXPECT_EQ(move->sends[1].offset, 32u);
  EXPECT_EQ(move->receives[0].bytes, 3u);
}

TEST(CarrierProtocol, a_message_cut_short_or_too_long_is_none) {
  Bytes move = write(a_move()), region = write(RegionOrder{.bytes = 1});
  for (std::size_t size = 0; size < move.size(); ++size)
    EXPECT_FALSE(read_move(ByteView(move).first(size))) << size;
  for (std::size_t size = 0; size < region.size(); ++size)
    EXPECT_FALSE(read_region(ByteView(region).first(size))) << size;
  move.push_back({});
  region.push_back({});
  EXPECT_FALSE(read_move(move));
  EXPECT_FALSE(read_region(region));
  EXPECT_FALSE(read_open(ByteView(move).first(3)));
  EXPECT_FALSE(read_join(ByteView(move).first(3)));
}

TEST(CarrierProtocol, numbers_that_cannot_be_are_refused) {
  EXPECT_FALSE(read_join(write(JoinOrder{3, 3, {}})));
  EXPECT_FALSE(read_join(write(JoinOrder{0, 1, Bytes(kMaxInvite + 1)})));
  Bytes spans = write(MoveOrder{});
  spans[7] = std::byte{0xff};  // as many sends as no memory holds
  EXPECT_FALSE(read_move(spans));
}

TEST(CarrierProtocol, an_answer_is_what_was_asked_for_or_the_cause) {
  const auto done = read_answer(write_answer(to_bytes(as_bytes("it"))));
  ASSERT_TRUE(done);
  EXPECT_EQ(as_text(*done), "it");
  const auto failed = read_answer(write_answer(Error{ErrorCode::internal, "no GPU"}));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::unavailable);
  EXPECT_EQ(failed.error().detail, "no GPU");
  EXPECT_EQ(read_answer({}).error().code, ErrorCode::corrupted);
  EXPECT_EQ(read_answer(as_bytes("x")).error().code, ErrorCode::corrupted);
}

}  // namespace
}  // namespace gpunode::carrier
