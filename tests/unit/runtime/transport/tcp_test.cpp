// Plain TCP beside ZeroMQ: what a connection is told about where its other end is.
#include "runtime/transport/detail/tcp.hpp"

#include <gtest/gtest.h>
#include <netinet/tcp.h>
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

// A connection from one address of this machine to a port of its loopback.
SharedDescriptor connection_from(const std::string& source, const Listening& listening) {
  auto here = numeric_address({source, 0});
  auto target = parse_endpoint(listening.endpoint);
  auto there = target ? numeric_address(*target) : std::nullopt;
  if (!here || !there) return nullptr;
  SharedDescriptor fd = share_descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Anything but what is looked for, wherever the system has another.
  for (const std::string other : {"cubic", "bbr"})
    setsockopt(*fd, IPPROTO_TCP, TCP_CONGESTION, other.data(),
               static_cast<socklen_t>(other.size()));
  if (bind(*fd, here->raw(), here->size) != 0) return nullptr;
  return connect(*fd, there->raw(), there->size) == 0 ? fd : nullptr;
}

class UnpacedTest : public testing::Test {
 protected:
  void SetUp() override {
    auto listening = listen_tcp("tcp://127.0.0.1:0");
    ASSERT_TRUE(listening);
    listening_ = *listening;
    closer_ = share_descriptor(listening_.fd);
  }

  Listening listening_;
  SharedDescriptor closer_;
};

TEST_F(UnpacedTest, AConnectionInsideTheMachineIsNotPaced) {
  const SharedDescriptor fd = connection_from("127.0.0.1", listening_);
  ASSERT_TRUE(fd);
  send_unpaced_if_local(*fd);
  EXPECT_EQ(congestion_control_of(*fd), "reno");
}

TEST_F(UnpacedTest, AConnectionBetweenTwoAddressesStaysAsTheSystemHasIt) {
  const SharedDescriptor fd = connection_from("127.0.0.2", listening_);
  ASSERT_TRUE(fd);
  const std::string before = congestion_control_of(*fd);
  if (before == "reno") GTEST_SKIP() << "this system has no other congestion control";
  send_unpaced_if_local(*fd);
  EXPECT_EQ(congestion_control_of(*fd), before);
}

TEST_F(UnpacedTest, WhatIsNoConnectionIsLeftAlone) {
  const std::string before = congestion_control_of(listening_.fd);
  send_unpaced_if_local(listening_.fd);
  send_unpaced_if_local(-1);
  EXPECT_EQ(congestion_control_of(listening_.fd), before);
}

}  // namespace
}  // namespace gpunode::transport::detail
