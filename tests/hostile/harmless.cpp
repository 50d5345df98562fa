// What takes the machine as the attacks do, and harms nobody: messages and connections, to itself. The
// kernel's work for those is charged to whom it interrupts, so a loop of arithmetic takes less than it says.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <utility>

#include "runtime/base/rng.hpp"
#include "tests/hostile/attacks.hpp"

namespace gpunode::hostile {
namespace {

class Arithmetic : public Attack {
 public:
  void step() override {
    for (std::uint64_t i = 0; i < 20'000; ++i) sum_ = mix(sum_, i);
    ++done_;
  }
  std::uint64_t done() const override { return done_; }

 private:
  volatile std::uint64_t sum_ = 0;
  std::uint64_t done_ = 0;
};

// To a listener of its own.
class ToItself : public Attack {
 public:
  ToItself() : door_(::socket(AF_INET, SOCK_STREAM, 0)) {
    place_.sin_family = AF_INET;
    place_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)::bind(door_, reinterpret_cast<sockaddr*>(&place_), sizeof place_);
    (void)::listen(door_, 128);
    socklen_t size = sizeof place_;
    (void)::getsockname(door_, reinterpret_cast<sockaddr*>(&place_), &size);
  }
  ~ToItself() override {
    while (!pairs_.empty()) close_oldest();
    ::close(door_);
  }
  std::uint64_t done() const override { return done_; }

 protected:
  void open_pair() {
    const int here = ::socket(AF_INET, SOCK_STREAM, 0);
    (void)::connect(here, reinterpret_cast<sockaddr*>(&place_), sizeof place_);
    pairs_.emplace_back(here, ::accept(door_, nullptr, nullptr));
  }
  void close_oldest() {
    ::close(pairs_.front().first);
    ::close(pairs_.front().second);
    pairs_.pop_front();
  }
  std::deque<std::pair<int, int>> pairs_;
  std::uint64_t done_ = 0;

 private:
  const int door_;
  sockaddr_in place_{};
};

class Messages final : public ToItself {
 public:
  Messages() { open_pair(); }
  void step() override {
    std::array<char, 300> text{};
    const auto [from, to] = pairs_.front();
    (void)::send(from, text.data(), text.size(), MSG_NOSIGNAL);
    (void)::recv(to, text.data(), text.size(), MSG_WAITALL);
    ++done_;
  }
};

class Connections final : public ToItself {
 public:
  void step() override {
    open_pair();
    for (int more = 0; more < 3; ++more)
      (void)::send(pairs_[rng_.below(pairs_.size())].first, "GPBT", 4, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (pairs_.size() > 400) close_oldest();
    ++done_;
  }

 private:
  Rng rng_{1};
};

}  // namespace

std::unique_ptr<Attack> make_harmless(std::string_view name) {
  if (name == "arithmetic") return std::make_unique<Arithmetic>();
  if (name == "messages") return std::make_unique<Messages>();
  return std::make_unique<Connections>();
}

}  // namespace gpunode::hostile
