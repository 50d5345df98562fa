// A client of a server on loopback that says and hears bytes as they are. One connection; closes with it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include <string>

#include "runtime/base/descriptor.hpp"

namespace gpunode::testing {

inline Descriptor dial(std::uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return socket;
}

inline void say(const Descriptor& socket, const std::string& text) {
  (void)::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

// All that comes until the server closes.
inline std::string hear(const Descriptor& socket) {
  std::string all;
  char part[4096];
  for (ssize_t count; (count = ::recv(socket.get(), part, sizeof part, 0)) > 0;)
    all.append(part, static_cast<std::size_t>(count));
  return all;
}

}  // namespace gpunode::testing
