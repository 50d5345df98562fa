#include "runtime/transport/detail/tcp.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace gpunode::transport::detail {

namespace {

// 0, or what gai_strerror() knows.
int look_up(const HostPort& target, int flags, SocketAddress& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  std::string port = std::to_string(target.port);
  const int failure = getaddrinfo(target.host.c_str(), port.c_str(), &hints, &found);
  if (failure != 0) return failure;
  addrinfo* best = found;
  for (addrinfo* each = found; each; each = each->ai_next) {
    if (each->ai_family == AF_INET) {  // names with both: what people's listeners default to
      best = each;
      break;
    }
  }
  std::memcpy(&address.storage, best->ai_addr, best->ai_addrlen);
  address.size = best->ai_addrlen;
  freeaddrinfo(found);
  return 0;
}

// One end of a connection, as ::getsockname or ::getpeername tells it; nothing: there is none.
std::optional<sockaddr_storage> end_of(int fd, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage end{};
  socklen_t size = sizeof end;
  if (ask(fd, reinterpret_cast<sockaddr*>(&end), &size) != 0) return std::nullopt;
  return end;
}

std::uint16_t port_of(const sockaddr_storage& address) {
  // It lies at the same offset in both families.
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

constexpr char kUnpaced[] = "reno";  // in every kernel, and open to every user

void set_congestion_control(int fd, const std::string& name) {
  ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size()));
}

bool same_host(const sockaddr_storage& a, const sockaddr_storage& b) {
  const auto v4 = [](const sockaddr_storage& at) {
    return reinterpret_cast<const sockaddr_in&>(at).sin_addr.s_addr;
  };
  const auto v6 = [](const sockaddr_storage& at) -> const in6_addr& {
    return reinterpret_cast<const sockaddr_in6&>(at).sin6_addr;
  };
  if (a.ss_family != b.ss_family) return false;
  return a.ss_family == AF_INET ? v4(a) == v4(b) : IN6_ARE_ADDR_EQUAL(&v6(a), &v6(b));
}

// Whether a connection there would come from there: asked of a datagram socket, which sends
// nothing to connect.
bool is_own(const SocketAddress& address) {
  const SharedDescriptor probe =
      share_descriptor(::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (*probe < 0 || ::connect(*probe, address.raw(), address.size) != 0) return false;
  const auto here = end_of(*probe, ::getsockname);
  return here && same_host(*here, address.storage);
}

}  // namespace

SharedDescriptor share_descriptor(int fd) {
  return {new int(fd), [](const int* held) {
            ::close(*held);
            delete held;
          }};
}

std::optional<HostPort> parse_endpoint(const std::string& endpoint) {
  constexpr std::string_view kScheme = "tcp://";
  if (!endpoint.starts_with(kScheme)) return std::nullopt;
  std::string_view rest = std::string_view(endpoint).substr(kScheme.size());
  auto colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  std::string_view host = rest.substr(0, colon), port = rest.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  HostPort result;
  result.host = host;
  auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), result.port);
  if (error != std::errc() || end != port.data() + port.size()) return std::nullopt;
  return result;
}

std::string reachable(std::string endpoint) {
  for (auto [all, here] :
       {std::pair{"//0.0.0.0:", "//127.0.0.1:"}, std::pair{"//[::]:", "//[::1]:"}}) {
    auto at = endpoint.find(all);
    if (at != std::string::npos) endpoint.replace(at, std::string_view(all).size(), here);
  }
  return endpoint;
}

IpAddress SocketAddress::ip() const {
  return IpAddress::parse(text()).value_or(IpAddress{});
}

std::optional<IpAddress> peer_of(int fd) {
  SocketAddress peer;
  peer.size = sizeof peer.storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer.storage), &peer.size) != 0)
    return std::nullopt;
  return peer.ip();
}

bool may_enter(int fd, const IpRanges& from) {
  if (from.empty()) return true;
  const auto peer = peer_of(fd);
  SocketAddress here;
  here.size = sizeof here.storage;
  const bool known = ::getsockname(fd, reinterpret_cast<sockaddr*>(&here.storage), &here.size) == 0;
  return peer && (from.allow(*peer) || (known && here.ip() == *peer));
}

std::string SocketAddress::text() const {
  char text[INET6_ADDRSTRLEN] = {};
  if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text,
              sizeof text);
  } else {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr, text,
              sizeof text);
  }
  return text;
}

std::optional<SocketAddress> numeric_address(const HostPort& target) {
  SocketAddress address;
  if (look_up(target, AI_NUMERICHOST, address) != 0) return std::nullopt;
  return address;
}

Result<SocketAddress> resolve(const HostPort& target) {
  SocketAddress address;
  const int failure = look_up(target, 0, address);
  if (failure == 0) return address;
  return {ErrorCode::not_found, "the name " + target.host + " does not resolve (" +
                                    gai_strerror(failure) +
                                    "): check its spelling and this machine's DNS"};
}

int begin_connect(const SocketAddress& address, Pacing pacing) {
  int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (pacing == Pacing::none_inside_machine && is_own(address))
    set_congestion_control(fd, kUnpaced);
  if (::connect(fd, address.raw(), address.size) == 0 || errno == EINPROGRESS) return fd;
  int cause = errno;
  ::close(fd);
  errno = cause;
  return -1;
}

int connect_result(int fd) {
  int cause = 0;
  socklen_t size = sizeof cause;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &cause, &size) != 0) return errno;
  return cause;
}

Result<int> connect_within(const SocketAddress& address, const std::string& name,
                           Duration timeout) {
  int fd = begin_connect(address);
  int cause = fd < 0 ? errno : 0;
  if (fd >= 0) {
    pollfd waiting{fd, POLLOUT, 0};
    auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
    int ready = ::poll(&waiting, 1, static_cast<int>(ms));
    cause = ready > 0 ? connect_result(fd) : ETIMEDOUT;
    if (cause == 0) return fd;
    ::close(fd);
  }
  if (cause == ECONNREFUSED) {
    return {ErrorCode::unavailable,
            "nothing listens on " + name + ": is the node up, and is this its port?"};
  }
  if (cause == ETIMEDOUT || cause == EHOSTUNREACH || cause == ENETUNREACH) {
    return {ErrorCode::timeout, "no answer from " + name +
                                    ": a firewall in between, or a wrong address (" +
                                    std::strerror(cause) + ")"};
  }
  return {ErrorCode::io_error, "cannot connect to " + name + ": " + std::strerror(cause)};
}

Result<Listening> listen_tcp(const std::string& endpoint) {
  auto target = parse_endpoint(endpoint);
  if (target && target->host == "*") target->host = "0.0.0.0";
  auto address = target ? numeric_address(*target) : std::nullopt;
  if (!address) return bind_error(endpoint, EINVAL, "not an address like tcp://10.0.0.5:7603");
  int family = address->storage.ss_family;
  int fd = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return {ErrorCode::resource_exhausted, "no file descriptors left to listen with"};
  set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (family == AF_INET6) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  std::optional<sockaddr_storage> bound;
  if (::bind(fd, address->raw(), address->size) != 0 || ::listen(fd, 256) != 0 ||
      !(bound = end_of(fd, ::getsockname))) {
    int cause = errno;
    ::close(fd);
    return bind_error(endpoint, cause, std::strerror(cause));
  }
  std::string host = family == AF_INET6 ? "[" + address->text() + "]" : address->text();
  return Listening{fd, "tcp://" + host + ":" + std::to_string(port_of(*bound))};
}

Error bind_error(const std::string& endpoint, int cause, const char* text) {
  if (cause == EADDRINUSE) {
    return {ErrorCode::already_exists, "cannot listen on " + endpoint +
                                           ": the port is taken by another program; stop it or "
                                           "choose another port"};
  }
  if (cause == EACCES) {
    return {ErrorCode::permission_denied,
            "cannot listen on " + endpoint + ": not permitted; choose a port above 1023"};
  }
  return {ErrorCode::invalid_argument, "cannot listen on " + endpoint + ": " + text +
                                           "; the address must be one of this machine's"};
}

std::string take_off_pacing(int listening_fd) {
  char name[16] = {};
  socklen_t size = sizeof name - 1;
  ::getsockopt(listening_fd, IPPROTO_TCP, TCP_CONGESTION, name, &size);
  set_congestion_control(listening_fd, kUnpaced);
  return name;
}

void pace_unless_local(int accepted_fd, const std::string& congestion_control) {
  const auto here = end_of(accepted_fd, ::getsockname), there = end_of(accepted_fd, ::getpeername);
  if (here && there && !same_host(*here, *there))
    set_congestion_control(accepted_fd, congestion_control);
}

SharedDescriptor duplicate_connection(int fd, const std::vector<std::uint16_t>& ports) {
  const int copy = fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return nullptr;
  SharedDescriptor own = share_descriptor(copy);
  const auto local = end_of(copy, ::getsockname);
  const bool connected = local && end_of(copy, ::getpeername) &&
                         (local->ss_family == AF_INET || local->ss_family == AF_INET6);
  return connected && std::ranges::find(ports, port_of(*local)) != ports.end() ? own : nullptr;
}

}  // namespace gpunode::transport::detail
