// One bulk connection: what is written at one end is read at the other, however the bytes are cut,
// and what nobody with the keys has written is known.
#include "runtime/transport/detail/bulk_stream.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "runtime/base/rng.hpp"
#include "runtime/transport/mesh_link.hpp"

namespace gpunode::transport::detail {
namespace {

constexpr std::uint64_t kSession = 7;

BulkChannel channel(bool plain, std::uint8_t key = 1) {
  BulkChannel made;
  made.plain = plain;
  security::BulkKey sealing, opening;
  sealing.writable()[0] = opening.writable()[0] = std::byte(key);
  made.sealer.emplace(std::move(sealing), SystemClock().now());
  made.opener.emplace(std::move(opening));
  return made;
}

class BulkStreamTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    writer_fd_ = share_descriptor(fds[0]);
    reader_fd_ = share_descriptor(fds[1]);
  }
  BulkStream writer(std::uint64_t session = kSession) {
    return {writer_fd_, channel(GetParam()), session, pool_};
  }
  BulkStream reader(std::uint8_t key = 1) {
    return {reader_fd_, channel(GetParam(), key), kSession, pool_};
  }
  static Envelope envelope(std::uint64_t seq, std::size_t payload_bytes) {
    Envelope made;
    made.kind = Kind::data;
    made.seq = seq;
    made.payload_bytes = payload_bytes;
    return made;
  }
  // The bytes of one message.
  Bytes written(std::size_t body_bytes, std::size_t payload_bytes) {
    BulkStream stream = writer();
    const Bytes body(body_bytes, std::byte{3});
    EXPECT_TRUE(stream.begin(Time{}, envelope(1, payload_bytes), body,
                             SharedBytes::from(Bytes(payload_bytes, std::byte{5}))));
    EXPECT_EQ(stream.write(), BulkStream::Written::all);
    Bytes bytes(100'000);
    const ssize_t got = recv(*reader_fd_, bytes.data(), bytes.size(), 0);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }
  void put(ByteView bytes) {
    ASSERT_EQ(send(*writer_fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
  SharedDescriptor writer_fd_, reader_fd_;
};

TEST_P(BulkStreamTest, MessagesOfAllSizesArriveWholeAndInOrder) {
  BulkStream out = writer(), in = reader();
  Rng rng(1);
  std::uint64_t next = 1, here = 0;
  std::vector<Bytes> bodies, payloads;
  for (int turn = 0; here < 60 && turn < 1'000'000; ++turn) {
    // Sometimes behind one that is not through.
    if (next <= 60 && (rng.below(3) == 0 || out.write() == BulkStream::Written::all)) {
      bodies.emplace_back(rng.below(3) == 0 ? 0 : rng.below(20'000), std::byte(next));
      payloads.emplace_back(rng.below(3) == 0 ? 0 : rng.below(900'000), std::byte(next * 3));
      ASSERT_TRUE(out.begin(Time{}, envelope(next, payloads.back().size()), bodies.back(),
                            SharedBytes::from(payloads.back())));
      ++next;
    }
    ASSERT_NE(out.write(), BulkStream::Written::broken);
    WireMessage message;
    const auto read = in.read(message);
    ASSERT_TRUE(read == BulkStream::Read::message || read == BulkStream::Read::nothing);
    if (read == BulkStream::Read::nothing) continue;
    ASSERT_EQ(message.envelope.seq, here + 1);
    ASSERT_EQ(message.body, bodies[here]);
    ASSERT_TRUE(std::ranges::equal(message.payload.view, payloads[here]));
    ++here;
  }
  EXPECT_EQ(here, 60u);
}

TEST_P(BulkStreamTest, BytesMayComeOneByOne) {
  const Bytes bytes = written(40, 300);
  BulkStream in = reader();
  WireMessage message;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    put(ByteView(bytes).subspan(at, 1));
    const bool last = at + 1 == bytes.size();
    ASSERT_EQ(in.read(message), last ? BulkStream::Read::message : BulkStream::Read::nothing);
  }
  EXPECT_EQ(message.payload.size(), 300u);
}

TEST_P(BulkStreamTest, AnEndInTheMidstOfAMessageIsAnEnd) {
  const Bytes bytes = written(40, 300);
  put(ByteView(bytes).first(200));
  writer_fd_.reset();
  BulkStream in = reader();
  WireMessage message;
  EXPECT_EQ(in.read(message), BulkStream::Read::ended);
}

TEST_P(BulkStreamTest, APayloadIsReadToTheMemoryLentWhereItFitsAndNothingIsSealed) {
  for (const std::size_t room : {60'000, 59'999, 60'001, 0}) {
    SetUp();
    BulkStream out = writer(), in = reader();
    Bytes lent(room);
    std::size_t asked = 0;
    in.read_payloads_to([&](const WireMessage& head) {
      ++asked;
      EXPECT_EQ(head.body.size(), 40u);
      EXPECT_EQ(head.envelope.payload_bytes, 60'000u);
      return WritableBytes{nullptr, lent};
    });
    ASSERT_TRUE(out.begin(Time{}, envelope(1, 60'000), Bytes(40),
                          SharedBytes::from(Bytes(60'000, std::byte{5}))));
    WireMessage message;
    BulkStream::Read read = BulkStream::Read::nothing;
    while (read == BulkStream::Read::nothing) {
      ASSERT_NE(out.write(), BulkStream::Written::broken);
      read = in.read(message);
    }
    ASSERT_EQ(read, BulkStream::Read::message);
    EXPECT_EQ(asked, GetParam() ? 1u : 0u);
    EXPECT_EQ(message.payload.view.data() == lent.data(), GetParam() && room == 60'000);
    EXPECT_TRUE(std::ranges::equal(message.payload.view, Bytes(60'000, std::byte{5})));
  }
}

TEST_P(BulkStreamTest, LentMemoryIsLetGoOfWhenTheConnectionEndsOnTheWay) {
  const Bytes bytes = written(10, 60'000);
  put(ByteView(bytes).first(20'000));
  auto lent = std::make_shared<Bytes>(60'000);
  {
    BulkStream in = reader();
    in.read_payloads_to([&](const WireMessage&) { return WritableBytes{lent, *lent}; });
    WireMessage message;
    ASSERT_EQ(in.read(message), BulkStream::Read::nothing);
    EXPECT_EQ(lent.use_count(), GetParam() ? 2 : 1);
  }
  EXPECT_EQ(lent.use_count(), 1);
}

TEST_P(BulkStreamTest, AMessageOfAnotherSessionIsBad) {
  BulkStream out = writer(kSession + 1);
  ASSERT_TRUE(out.begin(Time{}, envelope(1, 0), {}, {}));
  ASSERT_EQ(out.write(), BulkStream::Written::all);
  BulkStream in = reader();
  WireMessage message;
  EXPECT_EQ(in.read(message), BulkStream::Read::bad);
}

TEST_P(BulkStreamTest, NoBitMayBeFlippedUnderAKey) {
  const Bytes bytes = written(10, 50);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    SetUp();  // another connection
    Bytes flipped = bytes;
    flipped[at] ^= std::byte{0x10};
    put(flipped);
    writer_fd_.reset();
    BulkStream in = reader();
    WireMessage message;
    const auto read = in.read(message);
    if (GetParam()) continue;  // plain: the network is trusted; it only must not crash
    EXPECT_TRUE(read == BulkStream::Read::bad || read == BulkStream::Read::ended) << at;
  }
}

TEST_P(BulkStreamTest, WhatIsAnnouncedAsTooLongIsNeverWaitedFor) {
  const Bytes bytes = written(10, 50);
  for (const std::size_t field : {16, 20}) {  // content bytes, payload bytes
    SetUp();
    Bytes huge = bytes;
    const std::uint32_t length = kMaxBulkPayloadBytes + 1;
    std::memcpy(huge.data() + field, &length, sizeof length);
    put(ByteView(huge).first(32));
    BulkStream in = reader();
    WireMessage message;
    EXPECT_EQ(in.read(message), BulkStream::Read::bad);
  }
}

TEST_P(BulkStreamTest, NoiseIsBadOrAnEnd) {
  Rng rng(3);
  for (int round = 0; round < 300; ++round) {
    SetUp();
    Bytes noise = round % 2 > 0 ? written(10, 50) : Bytes();
    noise.resize(rng.below(noise.size() + 1));
    for (std::uint64_t more = rng.below(400); more > 0; --more)
      noise.push_back(std::byte(rng.next() & 0xff));
    put(noise);
    writer_fd_.reset();
    BulkStream in = reader();
    WireMessage message;
    BulkStream::Read read;
    do read = in.read(message);
    while (read == BulkStream::Read::message);
    EXPECT_NE(read, BulkStream::Read::nothing);
  }
}

INSTANTIATE_TEST_SUITE_P(BothWays, BulkStreamTest, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Plain" : "Sealed");
});

TEST(BulkStreamKeys, AnotherKeyDoesNotOpen) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  auto pool = std::make_shared<BufferPool>();
  BulkStream out(share_descriptor(fds[0]), channel(false, 1), kSession, pool);
  BulkStream in(share_descriptor(fds[1]), channel(false, 2), kSession, pool);
  Envelope hello;
  hello.kind = Kind::hello;
  ASSERT_TRUE(out.begin(Time{}, hello, {}, {}));
  ASSERT_EQ(out.write(), BulkStream::Written::all);
  WireMessage message;
  EXPECT_EQ(in.read(message), BulkStream::Read::bad);
}

TEST(BufferPool, GivesTheLastOneBackFirstAndOutlivesItsOwner) {
  auto pool = std::make_shared<BufferPool>();
  auto one = pool->take(1000), two = pool->take(1000);
  const std::byte* last = two.get();
  one.reset();
  two.reset();
  auto again = pool->take(900);
  EXPECT_EQ(again.get(), last);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(again.get()) % 64, 0u);
  EXPECT_NE(pool->take(4000).get(), last);  // too small
  pool.reset();
  again[899] = std::byte{1};
}

}  // namespace
}  // namespace gpunode::transport::detail
