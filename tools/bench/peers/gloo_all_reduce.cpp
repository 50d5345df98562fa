// gpunode-bench-gloo wait|spin BOARD RANK: Gloo's all-reduce over its TCP transport on 127.0.0.1,
// with each of its algorithms, in its default threading or in its mode that spins on the sockets.
// A rank of `gpunode-bench all-reduce`; built only where Gloo is installed.
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tools/bench/peers/peer_vector.hpp"
#include "tools/bench/rank_board.hpp"

namespace gpunode::bench {
namespace {

// In the order of the settings that all_reduce_contenders.cpp names.
enum Setting : std::uint32_t { ring_chunked, halving_doubling, bcube, ring2, bcube2 };

class GlooWork final : public RankWork {
 public:
  GlooWork(std::uint32_t rank, std::uint32_t ranks, const std::string& folder, bool spin)
      : rank_(rank), ranks_(ranks) {
    gloo::transport::tcp::attr address;
    address.hostname = "127.0.0.1";
    device_ = gloo::transport::tcp::CreateDevice(address);
    gloo::rendezvous::FileStore store(folder);
    context_ = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank),
                                                           static_cast<int>(ranks));
    context_->setTimeout(std::chrono::seconds(60));
    context_->connectFullMesh(store, device_);
    for (std::uint32_t peer = 0; spin && peer < ranks; ++peer)
      if (peer != rank) context_->getPair(static_cast<int>(peer))->setSync(true, true);
  }

  Result<void> prepare(std::uint64_t element_count, std::uint32_t setting) override {
    vector_.resize(element_count);
    if (auto made = make_algorithm(setting); !made) return made;
    return vector_.prepare(element_count, rank_, ranks_, [&] { return run(setting); });
  }

  Result<void> run(std::uint32_t setting) override {
    try {
      if (setting == ring2 || setting == bcube2)
        run_function(setting);
      else
        algorithms_.at(setting)->run();
    } catch (const std::exception& problem) {
      return Error{ErrorCode::internal, problem.what()};
    }
    return {};
  }

  void release(std::uint32_t setting) override {
    algorithms_.erase(setting);
    live_.erase(setting);
    if (live_.empty()) vector_.clear();
  }

 private:
  Result<void> make_algorithm(std::uint32_t setting) {
    live_[setting] = true;
    const std::vector<float*> pointers{vector_.data()};
    const int count = static_cast<int>(vector_.size());
    try {
      switch (setting) {
        case ring_chunked:
          algorithms_[setting] =
              std::make_unique<gloo::AllreduceRingChunked<float>>(context_, pointers, count);
          break;
        case halving_doubling:
          algorithms_[setting] =
              std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context_, pointers, count);
          break;
        case bcube:
          algorithms_[setting] =
              std::make_unique<gloo::AllreduceBcube<float>>(context_, pointers, count);
          break;
        default:
          break;
      }
    } catch (const std::exception& problem) {
      return Error{ErrorCode::internal, problem.what()};
    }
    return {};
  }

  void run_function(std::uint32_t setting) {
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(setting == ring2 ? gloo::AllreduceOptions::Algorithm::RING
                                          : gloo::AllreduceOptions::Algorithm::BCUBE);
    options.setOutput(vector_.data(), vector_.size());
    options.setReduceFunction([](void* out, const void* a, const void* b, std::size_t count) {
      gloo::sum<float>(out, a, b, count);
    });
    gloo::allreduce(options);
  }

  std::uint32_t rank_, ranks_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  PeerVector vector_;
  std::map<std::uint32_t, std::unique_ptr<gloo::Algorithm>> algorithms_;
  std::map<std::uint32_t, bool> live_;
};

int serve(const std::string& board_folder, std::uint32_t rank, bool spin) {
  auto board = RankBoard::open(board_folder);
  if (!board) return 1;
  const std::string folder = board_folder + "/gloo";
  mkdir(folder.c_str(), 0700);
  int status = 1;
  try {
    GlooWork work(rank, board->ranks(), folder, spin);
    board->meet();  // what one rank sends may not find another still changing its mode
    status = board->serve(rank, work);
  } catch (const std::exception& problem) {
    board->fail(rank, problem.what());
  }
  return status;
}

}  // namespace
}  // namespace gpunode::bench

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int status = gpunode::bench::serve(argv[2], static_cast<std::uint32_t>(std::atoi(argv[3])),
                                           std::strcmp(argv[1], "spin") == 0);
  std::fflush(stdout);
  std::_Exit(status);  // Gloo's own end may wait for peers that are gone
}
