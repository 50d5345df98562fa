// gpunode-bench-zmq BOARD RANK: the messages of an all-reduce over libzmq and nothing else: no
// addition, digest, encoding or second thread of ours. What remains is what ZeroMQ itself costs for
// the same bytes and hops: the measure for small vectors, and a floor for larger ones. Two ways:
//   owner   partials to the chunk's owner, results to all, then a word of 64 bytes to all
//   direct  the vector to all, then the word
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <zmq.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#include "runtime/collective/exchange_message.hpp"
#include "tools/bench/rank_board.hpp"

namespace gpunode::bench {
namespace {

enum Setting : std::uint32_t { owner_and_back, direct_to_all };
enum class Kind : std::uint32_t { partial, result, word };

struct Header {
  std::uint32_t operation = 0;
  Kind kind = Kind::partial;
  std::uint32_t chunk = 0;
};
constexpr std::size_t kWordBytes = 64;
constexpr int kMostDescriptors = 256;

Error zmq_failure(const char* what) {
  return {ErrorCode::internal, std::string(what) + ": " + zmq_strerror(zmq_errno())};
}

class ZmqWork final : public RankWork {
 public:
  ZmqWork(RankBoard& board, std::uint32_t rank)
      : board_(board), rank_(rank), ranks_(board.ranks()), context_(zmq_ctx_new()) {}

  Result<void> connect() override {
    inbox_ = zmq_socket(context_, ZMQ_PULL);
    if (zmq_bind(inbox_, "tcp://127.0.0.1:*") != 0) return zmq_failure("bind");
    char endpoint[128];
    std::size_t size = sizeof endpoint;
    zmq_getsockopt(inbox_, ZMQ_LAST_ENDPOINT, endpoint, &size);
    board_.tell(rank_, endpoint);
    board_.meet();
    outs_.resize(ranks_);
    for (std::uint32_t peer = 0; peer < ranks_; ++peer) {
      if (peer == rank_) continue;
      outs_[peer] = zmq_socket(context_, ZMQ_PUSH);
      if (zmq_connect(outs_[peer], board_.told(peer).c_str()) != 0) return zmq_failure("connect");
    }
    return {};
  }

  Result<void> prepare(std::uint64_t element_count, std::uint32_t setting) override {
    layout_ = collective::ChunkLayout::of(element_count);
    message_.resize(sizeof(Header) + element_count * sizeof(float));
    if (auto done = run(setting); !done) return done;
    // As the product's links do inside a machine. Of what is no TCP connection nothing changes.
    for (int fd = 3; fd < kMostDescriptors; ++fd)
      setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    return {};
  }

  Result<void> run(std::uint32_t setting) override {
    ++operation_;
    setting_ = setting;
    partials_.assign(layout_.chunk_count(), ranks_ - 1);
    words_ = ranks_ - 1;
    results_ = 0;
    for (std::uint32_t chunk = 0; chunk < layout_.chunk_count(); ++chunk)
      results_ += setting == owner_and_back && chunk % ranks_ != rank_;
    if (setting == direct_to_all) partials_.assign(1, ranks_ - 1);
    owned_ = 0;
    if (auto done = send_partials(); !done) return done;
    for (std::size_t waiting = early_.size(); waiting > 0; --waiting) {
      const Header header = early_.front();
      early_.pop_front();
      if (auto done = take(header); !done) return done;
    }
    if (auto done = maybe_word(); !done) return done;
    while (words_ > 0 || !told_) {
      zmq_msg_t message;
      zmq_msg_init(&message);
      if (zmq_msg_recv(&message, inbox_, 0) < 0) return zmq_failure("receive");
      Header header;
      std::memcpy(&header, zmq_msg_data(&message), sizeof header);
      zmq_msg_close(&message);
      if (auto done = take(header); !done) return done;
    }
    told_ = false;
    return {};
  }

  void release(std::uint32_t) override {}

 private:
  Result<void> send(std::uint32_t peer, const Header& header, std::size_t bytes) {
    std::memcpy(message_.data(), &header, sizeof header);
    if (zmq_send(outs_[peer], message_.data(), sizeof header + bytes, 0) < 0)
      return zmq_failure("send");
    return {};
  }
  Result<void> send_to_others(const Header& header, std::size_t bytes) {
    for (std::uint32_t step = 1; step < ranks_; ++step)
      if (auto done = send((rank_ + step) % ranks_, header, bytes); !done) return done;
    return {};
  }
  std::size_t chunk_bytes(std::uint32_t chunk) const { return layout_.size(chunk) * sizeof(float); }

  Result<void> send_partials() {
    if (setting_ == direct_to_all)
      return send_to_others({operation_, Kind::partial, 0}, layout_.element_count * sizeof(float));
    for (std::uint32_t chunk = 0; chunk < layout_.chunk_count(); ++chunk)
      if (chunk % ranks_ != rank_)
        if (auto done =
                send(chunk % ranks_, {operation_, Kind::partial, chunk}, chunk_bytes(chunk));
            !done)
          return done;
    return {};
  }

  // A peer may be one operation ahead.
  Result<void> take(const Header& header) {
    if (header.operation != operation_) {
      early_.push_back(header);
      return {};
    }
    if (header.kind == Kind::word) --words_;
    if (header.kind == Kind::result) --results_;
    if (header.kind == Kind::partial && --partials_[header.chunk] == 0) {
      ++owned_;
      if (setting_ == owner_and_back)
        if (auto done =
                send_to_others({operation_, Kind::result, header.chunk}, chunk_bytes(header.chunk));
            !done)
          return done;
    }
    return maybe_word();
  }

  // Everything is here: the word.
  Result<void> maybe_word() {
    std::uint32_t own = 0;
    for (std::uint32_t chunk = 0; chunk < partials_.size(); ++chunk)
      own += setting_ == direct_to_all || chunk % ranks_ == rank_;
    if (told_ || results_ > 0 || owned_ < own) return {};
    told_ = true;
    return send_to_others({operation_, Kind::word, 0}, std::min(kWordBytes, message_.size()));
  }

  RankBoard& board_;
  std::uint32_t rank_, ranks_;
  void* context_;
  void* inbox_ = nullptr;
  std::vector<void*> outs_;
  collective::ChunkLayout layout_;
  std::vector<char> message_;
  std::uint32_t operation_ = 0, setting_ = 0;
  std::vector<std::uint32_t> partials_;    // missing, by chunk
  std::uint32_t results_ = 0, words_ = 0;  // missing
  std::uint32_t owned_ = 0;                // chunks whose partials are all here
  bool told_ = false;
  std::deque<Header> early_;
};

}  // namespace
}  // namespace gpunode::bench

int main(int argc, char** argv) {
  using namespace gpunode::bench;
  if (argc != 3) return 2;
  auto board = RankBoard::open(argv[1]);
  if (!board) return 1;
  const auto rank = static_cast<std::uint32_t>(std::atoi(argv[2]));
  ZmqWork work(*board, rank);
  std::_Exit(board->serve(rank, work));  // nobody waits for what is still in the sockets
}
