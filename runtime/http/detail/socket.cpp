#include "runtime/http/detail/socket.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace gpunode::http::detail {
namespace {

std::string address_of(const sockaddr_storage& from) {
  char text[INET6_ADDRSTRLEN] = {};
  const void* address =
      from.ss_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(&from)->sin6_addr)
          : &reinterpret_cast<const sockaddr_in*>(&from)->sin_addr;
  if (!inet_ntop(from.ss_family, address, text, sizeof text)) return "";
  const std::string digits = text;
  constexpr std::string_view kMapped = "::ffff:";
  const bool mapped = digits.starts_with(kMapped) && digits.find('.') != std::string::npos;
  return mapped ? digits.substr(kMapped.size()) : digits;
}

}  // namespace

Error socket_error(const std::string& what, const HostPort& place) {
  const int number = errno;
  const std::string where = place.host + ":" + std::to_string(place.port);
  if (number == EADDRINUSE)
    return {ErrorCode::already_exists, "another program listens on " + where +
                                           ": take another port, or port 0 for a free one"};
  if (number == EADDRNOTAVAIL)
    return {ErrorCode::invalid_argument,
            where + " is no address of this machine: take one of its own, or 0.0.0.0"};
  return {ErrorCode::io_error, what + " " + where + ": " + std::strerror(number)};
}

Accepted accept_on(const Descriptor& listening) {
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  Descriptor socket(::accept4(listening.get(), reinterpret_cast<sockaddr*>(&from), &size,
                              SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.get() < 0) return {std::move(socket), {}, errno};
  const int on = 1;
  (void)setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return {std::move(socket), address_of(from)};
}

Result<Descriptor> listen_on(const HostPort& wanted, HostPort& place) {
  std::string host = wanted.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), std::to_string(wanted.port).c_str(), &hints, &found) != 0)
    return Error{ErrorCode::invalid_argument,
                 "'" + host + "' is no address: write digits, such as 127.0.0.1"};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, &freeaddrinfo);
  Descriptor listening(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  sockaddr_storage taken{};
  socklen_t size = sizeof taken;
  if (listening.get() < 0 ||
      setsockopt(listening.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(listening.get(), address->ai_addr, address->ai_addrlen) != 0 ||
      ::listen(listening.get(), SOMAXCONN) != 0 ||
      getsockname(listening.get(), reinterpret_cast<sockaddr*>(&taken), &size) != 0)
    return socket_error("cannot listen on", wanted);
  place = wanted;
  place.port =
      ntohs(taken.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&taken)->sin6_port
                                        : reinterpret_cast<const sockaddr_in*>(&taken)->sin_port);
  return listening;
}

}  // namespace gpunode::http::detail
