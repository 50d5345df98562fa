// A server for questions over HTTP/1.1. cpp-httplib reads and writes the protocol; the sockets and
// threads are here, so that everything has a bound: so many threads, so many connections, so many
// bytes of a request, one deadline for reading one, however slowly its client goes, and another one
// for writing the answer. A connection that is idle between two requests takes no thread. Costs one
// thread that accepts and watches, and ServerOptions::threads that answer.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/host_port.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::http {

struct Request {
  std::string method, path;  // "GET", "/metrics"; what stood behind '?' is in `query`
  std::multimap<std::string, std::string> query = {};
  std::map<std::string, std::string> headers = {};  // names in small letters; of several the last
  std::string body = {};
  std::string client = {};  // its address
  // Whether somebody is still there to read the answer; false too once the server closes.
  std::function<bool()> is_open = {};

  // Empty where there is none.
  std::string_view header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string_view() : found->second;
  }
};

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
  // So many requests are answered at once, as many clients may be slow.
  std::size_t threads = 4;
  // So many connections are open at once. Where one more comes, the one idle for longest is closed;
  // where none is idle, the new one.
  std::size_t connections = 20;
  // For reading a request, from its first byte; and for each piece of an answer to be taken.
  Duration deadline = std::chrono::seconds(5);
  // For all of an answer, from the request's last byte.
  Duration answer_deadline = std::chrono::seconds(5);
  // A connection without a request is closed after this; the first one is to come within `deadline`.
  // Zero: one request a connection.
  Duration idle = std::chrono::seconds(60);
  // Head and body together; a longer request is not answered, or with 413.
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
