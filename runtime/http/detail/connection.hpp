// One client's connection as cpp-httplib reads and writes it: each request within a deadline and so
// many bytes, each answer within deadlines of its own. Used by one thread at a time.
#pragma once

#include <httplib.h>

#include <chrono>
#include <string>

#include "runtime/base/clock.hpp"
#include "runtime/base/descriptor.hpp"

namespace gpunode::http::detail {

using SteadyTime = std::chrono::steady_clock::time_point;

class Connection final : public httplib::Stream {
 public:
  Connection(Descriptor socket, std::string client)
      : socket_(std::move(socket)), client_(std::move(client)) {}

  // A request is to be read by then, and of so many bytes.
  void begin_request(SteadyTime deadline, std::size_t bytes);
  // The answer is to be written by then, each piece of it within `piece`.
  void begin_answer(SteadyTime deadline, Duration piece);
  // Bytes of a next request that are here already.
  bool has_more() const { return begin_ < end_; }
  // Waits for the client's own end, so that what is on its way to it is not broken off by a reset.
  void end();
  // The client has ended its side, as one that has gone away does.
  bool is_gone() const;
  int number() const { return socket_.get(); }
  const std::string& client() const { return client_; }

  using Stream::write;
  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* out, size_t size) override;
  ssize_t write(const char* bytes, size_t size) override;
  void get_remote_ip_and_port(std::string& address, int& port) const override;
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_.get(); }

 private:
  bool wait(short events, SteadyTime until) const;
  bool fill();

  const Descriptor socket_;
  const std::string client_;
  SteadyTime deadline_{};
  Duration piece_ = Duration::zero();  // zero: a request is being read
  std::size_t bytes_left_ = 0;
  char buffer_[16 << 10];
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace gpunode::http::detail
