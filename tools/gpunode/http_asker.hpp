// One connection to an HTTP service, kept open from ask to ask: what `bench infer --http` asks with. Blocks;
// one thread. http:// alone; an answer has at most 64 MiB.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/descriptor.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::cli {

// "http://127.0.0.1:8000", with or without a path behind it, which is left out.
struct HttpPlace {
  std::string host, port;
};
// Fails with invalid_argument: it is no such URL, or https.
Result<HttpPlace> parse_http_url(const std::string& url);

class HttpAsker {
 public:
  struct Answer {
    int status = 0;
    std::string body;
  };
  // `key`: of the API; empty: none is wanted.
  HttpAsker(HttpPlace place, std::chrono::milliseconds timeout, std::string key = {})
      : place_(std::move(place)), timeout_(timeout), key_(std::move(key)) {}

  // Asks, on the connection of the last time where that still stands, and reads the answer whole; on_data is
  // told of each part as it comes and may be empty. A body makes it a POST of JSON; `headers` are more
  // lines of the request's head, each ended. Fails with: unavailable (nobody listens there), timeout
  // (between two parts), peer_lost, corrupted (no HTTP).
  Result<Answer> ask(const std::string& path, const std::string& body,
                     const std::function<void(std::string_view)>& on_data = {},
                     const std::string& headers = "");

 private:
  Result<void> connect();
  Result<void> send(std::string_view text);
  Result<void> receive();  // appends to input_
  Result<Answer> read_answer(const std::function<void(std::string_view)>& on_data);
  Result<void> read_until(std::size_t bytes);
  Result<std::string> read_line();

  const HttpPlace place_;
  const std::chrono::milliseconds timeout_;
  const std::string key_;
  Descriptor socket_{-1};
  std::string input_;  // read and not used
};

}  // namespace gpunode::cli
