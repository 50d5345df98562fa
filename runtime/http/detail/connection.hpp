// One client's connection, plain or over TLS: what has come is read without waiting, what goes out waits
// no longer than it may. Used by one thread at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/clock.hpp"
#include "runtime/base/descriptor.hpp"
#include "runtime/http/request_reader.hpp"

struct ssl_st;

namespace gpunode::http::detail {

using SteadyTime = std::chrono::steady_clock::time_point;

// Threads that wait until a client takes more of its answer: where they are too many, none waits for long.
struct SlowReaders {
  std::size_t most;
  std::atomic<std::size_t> now = 0;
};

class Connection {
 public:
  struct FreesSession {
    void operator()(ssl_st* session) const;
  };
  using Session = std::unique_ptr<ssl_st, FreesSession>;

  // `session`: null where it is plain. `slow_readers` outlives it; null: nobody counts them.
  Connection(Descriptor socket, std::string client, Session session, RequestReader::Limits limits,
             SlowReaders* slow_readers = nullptr);
  ~Connection();

  enum class Got { bytes, nothing, end };
  // A piece of what has come, to the reader. Nothing: wanted() is to be waited for.
  Got receive();
  // What is still on its way from a client that was told the end. Whether more may come.
  bool throw_away();
  // Of poll(): what may bring it on.
  short wanted() const { return wanted_; }

  // False: it is gone, or did not take it all until then.
  bool send(std::string_view bytes, SteadyTime until);
  // No more is sent; what was sent is not broken off by a reset while the rest is thrown away.
  void end();
  // The client has ended its side, as one that has gone away does.
  bool is_gone() const;
  // Of one that speaks no TLS where it should.
  bool is_plain_to_tls() const { return plain_to_tls_; }

  bool has_session() const { return session_ != nullptr; }
  int number() const { return socket_.get(); }
  const std::string& client() const { return client_; }
  RequestReader& reader() { return reader_; }

  // Its owner's own.
  SteadyTime until{}, since{};
  std::size_t counted_bytes = 0;  // of reader(), as the server has them in its sum
  bool ended = false, timed_out = false;
  bool body_begun = false;  // of the request that is coming

 private:
  // Bytes, 0 at the end, negative: to be waited for (wanted_), or broken.
  ssize_t read_some(char* to, std::size_t most);
  ssize_t write_some(std::string_view bytes);
  ssize_t told_by_session(int result);
  bool wait(SteadyTime until) const;
  bool wait_to_write(SteadyTime until) const;

  const Descriptor socket_;
  const std::string client_;
  const Session session_;
  RequestReader reader_;
  SlowReaders* const slow_readers_;
  short wanted_ = 0;
  bool broken_ = false, plain_to_tls_ = false;
};

}  // namespace gpunode::http::detail
