// HTTP/1.1 requests out of the bytes of one connection, as they come: pure, and strict about where a
// request begins and ends, as two who read that differently are how requests are smuggled. Whoever owns
// the connection adds bytes and looks at the stage; one thread at a time. Holds what was added and is not
// taken yet, never more than the limits and one piece.
// Source: RFC 9112, RFC 9110.
//
//   stage  | bytes come                          | take()
//   head   | stays, or body, whole, failed       |
//   body   | stays, or whole, failed             |
//   whole  | stays: they are of the next request | the request; head, or further with what is here
//   failed | thrown away                         |
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/http/request.hpp"

namespace gpunode::http {

class RequestReader {
 public:
  struct Limits {
    std::size_t head_bytes = 16 << 10;  // with a hundred lines at most
    std::size_t body_bytes = 16 << 10;
  };
  enum class Stage { head, body, whole, failed };

  explicit RequestReader(Limits limits) : limits_(limits) {}

  Stage add(std::string_view bytes);
  Stage stage() const { return stage_; }
  // Nothing of a request is here.
  bool is_empty() const { return stage_ == Stage::head && bytes_.empty(); }
  // From the stage `body` on; its body is there when it is whole.
  const Request& request() const { return request_; }
  // Bytes of the body that are to come in all; 0 where they come in chunks, which do not say.
  std::size_t told_body_bytes() const { return is_chunked_ ? 0 : body_bytes_; }
  // In the stage `body`: the client waits for "100 Continue" before it sends it. Once.
  bool take_continue() { return std::exchange(wants_continue_, false); }
  // Whether this side may ask for more on the connection, and what of HTTP it understands.
  bool keeps_alive() const { return keeps_alive_; }
  bool is_1_0() const { return is_1_0_; }

  // Failed: what to answer with, and why.
  int status() const { return status_; }
  const std::string& why() const { return why_; }

  Request take();
  std::size_t buffered_bytes() const { return bytes_.size() + request_.body.size(); }

 private:
  Stage advance();
  Stage fail(int status, std::string why);
  void read_head(std::string_view head);
  void read_request_line(std::string_view line);
  void read_target(std::string_view target);
  void read_header(std::string_view line);
  void read_framing();
  void read_length(std::string_view length);
  void read_body();
  bool read_chunk();
  bool read_chunk_size(std::string_view line);
  bool read_trailer(std::string_view line);
  std::optional<std::string_view> next_line();

  Limits limits_;
  Stage stage_ = Stage::head;
  std::string bytes_;         // not read yet
  std::size_t searched_ = 0;  // of the head's end
  Request request_{.method = {}, .path = {}};
  bool is_1_0_ = false, keeps_alive_ = false, wants_continue_ = false, is_chunked_ = false;
  std::size_t body_bytes_ = 0;
  enum class Chunk { size, data, end, trailer } chunk_ = Chunk::size;
  std::size_t at_ = 0;  // of bytes_, which chunks are read from
  std::size_t chunk_left_ = 0, trailer_bytes_ = 0;
  int status_ = 0;
  std::string why_;
};

}  // namespace gpunode::http
