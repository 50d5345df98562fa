// A server for questions over HTTP/1.1, plain or over TLS 1.3, that may stand where strangers reach it:
// everything has a bound. So many connections, in all and of one address; so many bytes of a request and
// of all requests together; deadlines for the handshake and a request's head, for its body by its size,
// and for each piece of the answer. A thread is taken by a request that is whole and by nothing slower:
// until then one thread watches all connections. Costs that thread, and up to ServerOptions::threads that
// answer, each started when it is first needed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/host_port.hpp"
#include "runtime/base/result.hpp"
#include "runtime/http/request.hpp"
#include "runtime/http/tls.hpp"

namespace gpunode::http {

// What an answer that comes piece by piece is written to.
class Writer {
 public:
  virtual ~Writer() = default;
  // Blocks while the client does not read. False: it is gone, or too slow.
  virtual bool write(std::string_view piece) = 0;
  // Whether somebody is still there to read; asked now and then by whoever computes for long.
  virtual bool is_open() const = 0;
};

struct Answer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  // Instead of a body: called on the server's thread, writes all there is, and returns.
  std::function<void(Writer& to)> stream = {};
};

struct ServerOptions {
  HostPort listen = {};  // an address as digits, with or without brackets; port 0 takes a free one
  // So many requests are answered at once.
  std::size_t threads = 4;
  // So many connections are open at once, and of one address. Where one more comes, the one of the
  // address with most that waits for longest is closed; where all are at work, the new one.
  std::size_t connections = 20;
  std::size_t connections_of_address = SIZE_MAX;
  // From a connection's or request's first byte to its head's last; as long for its body, and a second
  // more for each 64 KiB of it. And for each piece of an answer to be taken.
  Duration deadline = std::chrono::seconds(5);
  // For all of an answer to be taken, from when there is something of it.
  Duration answer_deadline = std::chrono::seconds(5);
  // A connection without a request is closed after this; the first one is to come within `deadline`.
  // Zero: one request a connection.
  Duration idle = std::chrono::seconds(60);
  std::size_t head_bytes = 16 << 10;
  std::size_t body_bytes = 16 << 10;
  // Of all requests that are not whole yet.
  std::size_t bytes_under_way = 64 << 20;
  // Empty: plain. Else a file may be renewed while the server runs.
  std::optional<TlsFiles> tls = {};
  // A request's head, before its body is taken: what to answer instead, and hang up. May be empty.
  std::function<std::optional<Answer>(const Request& head)> look_at_head = {};
  // What the server itself refuses, in the words of whoever answers; `request` has what is known of it.
  // Empty: as plain text.
  std::function<Answer(const Request& request, int status, const std::string& why)> refuse = {};
};

class Server {
 public:
  // Called on the server's threads, on several at once.
  using Handler = std::function<Answer(const Request& request)>;

  // Fails with invalid_argument (no address of digits), already_exists (another program listens
  // there), io_error; and as Tls::open does.
  static Result<std::unique_ptr<Server>> open(ServerOptions options, Handler handler);
  virtual ~Server() = default;

  virtual HostPort place() const = 0;  // with the port that was taken
  // Takes no more connections and ends those that wait for a request; waits until each request that has
  // begun to come is answered, or so long.
  virtual void drain(std::chrono::milliseconds at_most) = 0;
  // Stops intake, breaks what is under way, joins the threads. No call of the handler after it.
  virtual void close() = 0;
};

}  // namespace gpunode::http
