// Plain TCP beside ZeroMQ: what a connection is paced by, by where its other end is.
#include "runtime/transport/detail/tcp.hpp"

#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>

namespace gpunode::transport::detail {
namespace {

std::string congestion_control_of(int fd) {
  char name[16] = {};
  socklen_t size = sizeof name;
  if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) != 0) return "";
  return name;
}

class PacingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto listening = listen_tcp("tcp://0.0.0.0:0");
    ASSERT_TRUE(listening);
    door_ = share_descriptor(listening->fd);
    port_ = parse_endpoint(listening->endpoint)->port;
    // Anything but what is looked for, wherever the system has another.
    for (const std::string other : {"cubic", "bbr"})
      setsockopt(*door_, IPPROTO_TCP, TCP_CONGESTION, other.data(),
                 static_cast<socklen_t>(other.size()));
    system_ = congestion_control_of(*door_);
    if (system_ == "reno") GTEST_SKIP() << "this system has no other congestion control";
    EXPECT_EQ(take_off_pacing(*door_), system_);
  }

  // The door's end of a connection from one address of this machine to another.
  SharedDescriptor accepted(const std::string& source, const std::string& target) {
    auto here = numeric_address({source, 0});
    auto there = numeric_address({target, port_});
    dialled_ = share_descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (bind(*dialled_, here->raw(), here->size) != 0) return nullptr;
    if (connect(*dialled_, there->raw(), there->size) != 0) return nullptr;
    pollfd waiting{*door_, POLLIN, 0};
    if (poll(&waiting, 1, 10'000) != 1) return nullptr;
    SharedDescriptor fd = share_descriptor(accept(*door_, nullptr, nullptr));
    pace_unless_local(*fd, system_);
    return fd;
  }

  SharedDescriptor door_, dialled_;
  std::uint16_t port_ = 0;
  std::string system_;
};

TEST_F(PacingTest, ThereIsNoneInsideAMachine) {
  const SharedDescriptor fd = accepted("127.0.0.1", "127.0.0.1");
  ASSERT_TRUE(fd);
  EXPECT_EQ(congestion_control_of(*fd), "reno");
}

TEST_F(PacingTest, BetweenTwoAddressesItIsAsTheSystemHasIt) {
  const SharedDescriptor fd = accepted("127.0.0.2", "127.0.0.1");
  ASSERT_TRUE(fd);
  EXPECT_EQ(congestion_control_of(*fd), system_);
}

TEST_F(PacingTest, WhoDialsLeavesItOnlyInsideTheMachine) {
  const SharedDescriptor inside = share_descriptor(
      begin_connect(*numeric_address({"127.0.0.1", port_}), Pacing::none_inside_machine));
  EXPECT_EQ(congestion_control_of(*inside), "reno");
  const SharedDescriptor as_system =
      share_descriptor(begin_connect(*numeric_address({"127.0.0.1", port_})));
  const SharedDescriptor outside =  // loopback's own address answers for all of 127/8
      share_descriptor(
          begin_connect(*numeric_address({"127.0.0.2", port_}), Pacing::none_inside_machine));
  EXPECT_EQ(congestion_control_of(*outside), congestion_control_of(*as_system));
}

}  // namespace
}  // namespace gpunode::transport::detail
