// A server for small questions over HTTP: one request a connection, answered whole. Exists so that
// programs that know nothing but HTTP can read a node. cpp-httplib reads and writes the protocol; the
// sockets and threads are here, so that everything has a bound: so many threads, so many
// connections that wait, so many bytes of a request, and one deadline for all of a connection, however
// slowly its client goes. Costs one thread that accepts and Options::threads that answer.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/base/clock.hpp"
#include "runtime/base/host_port.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::http {

struct Request {
  std::string method, path;  // "GET", "/metrics"; what stood behind '?' is cut off
};

struct Answer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
  std::string allow = {};  // the header of a 405: the methods there are
};

struct ServerOptions {
  HostPort listen = {};  // an address as digits, with or without brackets; port 0 takes a free one
  // So many connections are served at once, as many clients may be slow.
  std::size_t threads = 4;
  // So many wait for a thread; what comes then is closed.
  std::size_t waiting = 16;
  // For all of one connection, from the moment that a thread takes it.
  Duration deadline = std::chrono::seconds(5);
  // Head and body together; a longer request is not answered.
  std::size_t request_bytes = 16 << 10;
};

class Server {
 public:
  // Called on the server's threads, on several at once.
  using Handler = std::function<Answer(const Request& request)>;

  // Fails with invalid_argument (no address of digits), already_exists (another program listens
  // there), io_error.
  static Result<std::unique_ptr<Server>> open(ServerOptions options, Handler handler);
  virtual ~Server() = default;

  virtual HostPort place() const = 0;  // with the port that was taken
  // Stops intake, breaks what is under way, joins the threads. No call of the handler after it.
  virtual void close() = 0;
};

}  // namespace gpunode::http
