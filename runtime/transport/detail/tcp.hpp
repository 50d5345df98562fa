// Plain TCP beside ZeroMQ, which does not tell a refusal from a time-out and is not fit for
// strangers: split an endpoint, resolve a name, listen, connect with a deadline. Whoever is given a
// descriptor closes it.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/host_port.hpp"
#include "runtime/base/ip_address.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::transport::detail {

// A descriptor that is closed once nobody holds it.
using SharedDescriptor = std::shared_ptr<const int>;
SharedDescriptor share_descriptor(int fd);

inline void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

// "tcp://10.0.0.5:7601", "tcp://[::1]:7601".
std::optional<HostPort> parse_endpoint(const std::string& endpoint);

// An endpoint that is bound to all addresses, as it is reached from here.
std::string reachable(std::string endpoint);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  std::string text() const;  // "10.0.0.5", "fe80::1"
  IpAddress ip() const;
};
// Who is at the other end of a connection; nothing where it has gone.
std::optional<IpAddress> peer_of(int fd);
// Whether it comes from one of the ranges, or from the address that it has reached: this machine.
bool may_enter(int fd, const IpRanges& from);
// The address of a numeric host, or nothing: never asks a name server.
std::optional<SocketAddress> numeric_address(const HostPort& target);
// Asks the system's resolver; may block for seconds. Fails with not_found.
Result<SocketAddress> resolve(const HostPort& target);

enum class Pacing { as_system, none_inside_machine };
// A non-blocking socket on its way to the address; -1 with errno when refused at once.
int begin_connect(const SocketAddress& address, Pacing pacing = Pacing::as_system);
// What became of it: 0 or an errno.
int connect_result(int fd);
// A connected, non-blocking socket. Fails with unavailable (refused), timeout, io_error (no route
// ...); the texts call the address `name`.
Result<int> connect_within(const SocketAddress& address, const std::string& name, Duration timeout);

struct Listening {
  int fd = -1;           // non-blocking
  std::string endpoint;  // with the true port
};
// Listens on "tcp://10.0.0.5:7603"; port 0 takes a free one, the host * all addresses. Fails as
// bind_error says.
Result<Listening> listen_tcp(const std::string& endpoint);
// Why an endpoint could not be bound: already_exists (in use), permission_denied, or
// invalid_argument with the system's `text`.
Error bind_error(const std::string& endpoint, int cause, const char* text);

// A descriptor of our own for a connection that ZeroMQ accepted, by which it can be shut although
// ZeroMQ 4.3.4 cannot. Null unless `fd` is (still) a connection to one of the local `ports`: ZeroMQ
// may have closed it, and the number may be another's by now.
SharedDescriptor duplicate_connection(int fd, const std::vector<std::uint16_t>& ports);

// Where the system paces TCP (BBR), a timer for each segment costs a fifth of all that goes from
// one program to another on the same machine, where no link is to be spared. It can only be kept
// away from the start: so a door is opened without, and gives it to those who come from elsewhere.
// Returns the name of the system's congestion control.
std::string take_off_pacing(int listening_fd);
void pace_unless_local(int accepted_fd, const std::string& congestion_control);

}  // namespace gpunode::transport::detail
