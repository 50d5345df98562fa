// gpunode-bench-tcp BOARD RANK: a ring over bare TCP, as the floor under every all-reduce on these
// sockets: as many bytes a rank as ours, one thread, and the additions; no message, digest, name or
// failure is known here, and what is summed overwrites what was brought. A float may leave as soon
// as it is summed.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tools/bench/peers/peer_vector.hpp"
#include "tools/bench/rank_board.hpp"

namespace gpunode::bench {
namespace {

constexpr std::size_t kBlock = std::size_t{512} << 10;
constexpr int kSpins = 2000;  // before it sleeps, where every rank has a core

Error failure(const char* what) {
  return {ErrorCode::io_error, std::string(what) + ": " + std::strerror(errno)};
}

class TcpWork final : public RankWork {
 public:
  TcpWork(RankBoard& board, std::uint32_t rank)
      : board_(board),
        rank_(rank),
        ranks_(board.ranks()),
        spins_(ranks_ <= std::thread::hardware_concurrency() ? kSpins : 0),
        block_(kBlock) {}

  Result<void> connect() override {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    const int door = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    set_options(door);
    if (::bind(door, raw, size) != 0 || ::listen(door, 1) != 0 ||
        ::getsockname(door, raw, &size) != 0)
      return failure("listen");
    board_.tell(rank_, std::to_string(ntohs(address.sin_port)));
    board_.meet();
    address.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(board_.told((rank_ + 1) % ranks_))));
    next_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    set_options(next_);
    if (::connect(next_, raw, size) != 0) return failure("connect");
    previous_ = ::accept(door, nullptr, nullptr);
    if (previous_ < 0) return failure("accept");
    set_options(previous_);
    ::close(door);
    return {};
  }

  Result<void> prepare(std::uint64_t element_count, std::uint32_t setting) override {
    return vector_.prepare(element_count, rank_, ranks_, [&] { return run(setting); });
  }

  // First every part goes round and is summed on its way, then round again as it is: a rank sends
  // what it has received a part before.
  Result<void> run(std::uint32_t) override {
    const std::uint32_t parts = 2 * (ranks_ - 1);
    Place sent, here;
    for (int idle = 0; sent.part < parts || here.part < parts;) {
      const std::size_t may_send = sent.part < parts ? ready(sent, here) : 0;
      ssize_t wrote = 0, got = 0;
      if (may_send > 0)
        wrote = moved(::send(next_, at(sent, rank_), may_send, MSG_NOSIGNAL | MSG_DONTWAIT));
      if (here.part < parts) got = receive(here);
      if (wrote < 0 || got < 0) return failure("the connection to another rank");
      advance(sent, static_cast<std::size_t>(wrote), rank_);
      advance(here, static_cast<std::size_t>(got), rank_ + ranks_ - 1);
      if (wrote > 0 || got > 0)
        idle = 0;
      else if (++idle > spins_)
        wait(may_send > 0);
    }
    return {};
  }

  void release(std::uint32_t) override { vector_.clear(); }

 private:
  // In the row of parts that a rank sends, or receives: the vector's part (first - part) mod ranks.
  struct Place {
    std::uint32_t part = 0;
    std::size_t offset = 0;  // bytes
  };

  static void set_options(int fd) {
    const int yes = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);  // as the product, inside a machine
  }

  // Not an error if the kernel has no room, or no bytes; of the end of a connection one.
  static ssize_t moved(ssize_t bytes) {
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    return bytes;
  }

  std::size_t begin_of(std::uint32_t part) const { return vector_.size() * part / ranks_; }
  std::uint32_t part_of(const Place& place, std::uint32_t first) const {
    return (first + 2 * ranks_ - place.part) % ranks_;
  }
  std::size_t bytes_of(const Place& place, std::uint32_t first) const {
    const std::uint32_t part = part_of(place, first);
    return (begin_of(part + 1) - begin_of(part)) * sizeof(float);
  }
  char* at(const Place& place, std::uint32_t first) {
    return reinterpret_cast<char*>(vector_.data() + begin_of(part_of(place, first))) + place.offset;
  }

  void advance(Place& place, std::size_t bytes, std::uint32_t first) const {
    place.offset += bytes;
    if (place.part == 2 * (ranks_ - 1) || place.offset < bytes_of(place, first)) return;
    ++place.part;
    place.offset = 0;
  }

  // Bytes of the part that may be sent by now.
  std::size_t ready(const Place& sent, const Place& here) const {
    const bool summing = sent.part == here.part + 1;
    const std::size_t end = summing ? here.offset : bytes_of(sent, rank_);
    return std::min(end - sent.offset, 2 * kBlock);
  }

  // Gives the bytes that are in their place, summed where that is still to be done.
  ssize_t receive(const Place& here) {
    const std::uint32_t first = rank_ + ranks_ - 1;
    const std::size_t left = bytes_of(here, first) - here.offset;
    char* to = at(here, first);
    if (here.part + 1 >= ranks_) return moved_in(::recv(previous_, to, left, MSG_DONTWAIT));
    const ssize_t got = moved_in(::recv(previous_, block_.data() + waiting_,
                                        std::min(left, kBlock) - waiting_, MSG_DONTWAIT));
    if (got < 0) return got;
    waiting_ += static_cast<std::size_t>(got);
    const std::size_t floats = waiting_ / sizeof(float);
    auto* sum = reinterpret_cast<float*>(to);
    const auto* value = reinterpret_cast<const float*>(block_.data());
    for (std::size_t i = 0; i < floats; ++i) sum[i] += value[i];
    const std::size_t summed = floats * sizeof(float);
    waiting_ -= summed;
    std::memmove(block_.data(), block_.data() + summed, waiting_);
    return static_cast<ssize_t>(summed);
  }
  static ssize_t moved_in(ssize_t bytes) { return bytes == 0 ? -1 : moved(bytes); }

  void wait(bool to_send) const {
    const short room = to_send ? POLLOUT : 0;
    pollfd sockets[2] = {{previous_, POLLIN, 0}, {next_, room, 0}};
    ::poll(sockets, 2, 1000);
  }

  RankBoard& board_;
  std::uint32_t rank_, ranks_;
  int spins_;
  int next_ = -1, previous_ = -1;
  PeerVector vector_;
  std::vector<char> block_;  // what is still to be summed
  std::size_t waiting_ = 0;  // bytes there: less than a float between two reads
};

}  // namespace
}  // namespace gpunode::bench

int main(int argc, char** argv) {
  using namespace gpunode::bench;
  if (argc != 3) return 2;
  auto board = RankBoard::open(argv[1]);
  if (!board) return 1;
  const auto rank = static_cast<std::uint32_t>(std::atoi(argv[2]));
  TcpWork work(*board, rank);
  return board->serve(rank, work);
}
