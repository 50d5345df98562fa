// Two nodes whose link protocols differ: both ends name the versions, and neither hangs or floods.
// The other version is spoken by hand, through a socket with an admitted node's keys.
#include <flatbuffers/flatbuffers.h>

#include "runtime/transport/detail/envelope_codec.hpp"
#include "runtime/transport/detail/zap_door.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"
#include "tests/unit/runtime/transport/link_fixture.hpp"
#include "tests/unit/runtime/transport/socket_wait.hpp"

namespace gpunode::transport::test {
namespace {

constexpr std::uint16_t kOther = detail::kProtocolMajor + 1;

// A control frame, as a later version would begin it: `major` stays the first field.
detail::Frame frame_of(const detail::Envelope& envelope, std::uint16_t major) {
  Bytes head = detail::encode_envelope(envelope);
  auto* table = flatbuffers::GetMutableRoot<flatbuffers::Table>(head.data());
  constexpr flatbuffers::voffset_t kFirstField = 4;
  EXPECT_TRUE(table->SetField<std::uint16_t>(kFirstField, major, 0));
  auto size = static_cast<std::uint32_t>(head.size());
  Bytes bytes(8 + head.size());
  std::memcpy(bytes.data(), &size, sizeof size);
  std::memcpy(bytes.data() + 4, head.data(), head.size());
  return detail::Frame(bytes);
}

class LinkVersionTest : public ::testing::Test {
 protected:
  struct Told {
    NodeId peer;
    std::uint16_t theirs, ours;
  };

  std::unique_ptr<MeshLink> start(int number) {
    LinkEvents events = journal_.events();
    events.on_other_version = [this](const NodeId& peer, std::uint16_t theirs, std::uint16_t ours) {
      std::lock_guard lock(mutex_);
      told_.push_back({peer, theirs, ours});
      changed_.notify_all();
    };
    return net_.open_mesh(number, 1, std::move(events), {});
  }
  void expect_told_of(const NodeId& peer) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, kHangLimit, [&] { return !told_.empty(); }));
    EXPECT_EQ(told_[0].peer, peer);
    EXPECT_EQ(told_[0].theirs, kOther);
    EXPECT_EQ(told_[0].ours, detail::kProtocolMajor);
  }
  std::size_t times_told() {
    std::lock_guard lock(mutex_);
    return told_.size();
  }

  MeshNet net_;
  Journal journal_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Told> told_;
};

TEST_F(LinkVersionTest, AnOtherVersionThatDialsIsNamedAndAnswered) {
  auto one = start(1);
  MeshLinkOptions other = net_.options(2, 1, {.dial_only = true});
  one->set_peer(net_.address(2));
  detail::Socket socket(detail::control_context(), ZMQ_DEALER);
  socket.set_bytes(ZMQ_CURVE_SERVERKEY, net_.address(1).curve_public_key);
  socket.set_bytes(ZMQ_CURVE_PUBLICKEY, other.curve_public_key);
  socket.set_bytes(ZMQ_CURVE_SECRETKEY, other.curve_secret_key);
  socket.connect(one->control_endpoints()[0]);
  detail::Envelope hello;
  hello.kind = detail::Kind::hello;
  hello.session = 77;
  hello.boot = hello.greeting = 1;
  for (int attempt = 0; attempt < 3; ++attempt) {
    detail::Frames frames;
    frames.push_back(frame_of(hello, kOther));
    ASSERT_EQ(socket.send(frames), detail::Sent::yes);
    // What it is answered lets it name our version, too.
    detail::Frames answer = wait_for(socket);
    ASSERT_EQ(answer.size(), 1u);
    std::uint32_t size = 0;
    std::memcpy(&size, answer[0].data(), sizeof size);
    EXPECT_EQ(detail::envelope_major(answer[0].view().subspan(4, size)), detail::kProtocolMajor);
  }
  expect_told_of(node_id(2));
  EXPECT_EQ(times_told(), 1u);
  EXPECT_TRUE(journal_.all().empty());
  one->close();
}

TEST_F(LinkVersionTest, AnOtherVersionThatIsDialledIsNamedOnceWhileItIsTriedAgain) {
  auto one = start(1);
  MeshLinkOptions other = net_.options(2, 1, {});
  detail::Socket socket(detail::control_context(), ZMQ_ROUTER);
  socket.set(ZMQ_CURVE_SERVER, 1);
  socket.set_bytes(ZMQ_CURVE_SECRETKEY, other.curve_secret_key);
  socket.set(detail::kZapEnforceDomain, 1);  // without a domain: everybody may come
  auto endpoint = socket.bind("tcp://127.0.0.1:0");
  ASSERT_TRUE(endpoint);
  PeerAddress address = net_.address(2);
  address.control_endpoints = {*endpoint};
  one->set_peer(address);
  for (int attempt = 0; attempt < 3; ++attempt) {
    detail::Frames hello = wait_for(socket);
    ASSERT_EQ(hello.size(), 2u) << "not tried again";
    detail::Envelope welcome;
    welcome.kind = detail::Kind::not_yet;
    detail::Frames answer;
    answer.push_back(std::move(hello[0]));
    answer.push_back(frame_of(welcome, kOther));
    ASSERT_EQ(socket.send(answer), detail::Sent::yes);
    expect_told_of(node_id(2));
  }
  EXPECT_EQ(times_told(), 1u);
  EXPECT_EQ(journal_.count(node_id(2), Lane::control, LinkState::up), 0u);
  one->close();
}

}  // namespace
}  // namespace gpunode::transport::test
