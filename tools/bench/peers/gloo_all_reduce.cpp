// gpunode-bench-gloo BOARD RANK: Gloo's all-reduce over its TCP transport on 127.0.0.1, with each
// of its algorithms, in its default threading and in its mode that spins on the sockets.
// A rank of `gpunode-bench all-reduce`; built only where Gloo is installed.
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "tools/bench/peers/peer_vector.hpp"
#include "tools/bench/rank_board.hpp"

namespace gpunode::bench {
namespace {

// In the order of the settings that all_reduce_contenders.cpp names.
enum Setting : std::uint32_t { ring_chunked, halving_doubling, bcube, ring2, bcube2, spin };

class GlooWork final : public RankWork {
 public:
  GlooWork(std::uint32_t rank, std::uint32_t ranks, const std::string& folder)
      : rank_(rank), ranks_(ranks), store_(folder) {
    gloo::transport::tcp::attr address;
    address.hostname = "127.0.0.1";
    device_ = gloo::transport::tcp::CreateDevice(address);
    context_ = connect("default");
  }

  Result<void> prepare(std::uint64_t element_count, std::uint32_t setting) override {
    vector_.resize(element_count);
    auto done = reduce_once(setting);
    if (!done) return done;
    vector_.fill(0);
    return {};
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
  std::shared_ptr<gloo::rendezvous::Context> connect(const std::string& name) {
    auto context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank_),
                                                               static_cast<int>(ranks_));
    context->setTimeout(std::chrono::seconds(60));
    gloo::rendezvous::PrefixStore store(name, store_);
    context->connectFullMesh(store, device_);
    return context;
  }

  Result<void> reduce_once(std::uint32_t setting) {
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
        case spin:
          algorithms_[setting] =
              std::make_unique<gloo::AllreduceHalvingDoubling<float>>(spinning(), pointers, count);
          break;
        default:
          break;
      }
    } catch (const std::exception& problem) {
      return Error{ErrorCode::internal, problem.what()};
    }
    vector_.fill(static_cast<float>(rank_ + 1));
    auto done = run(setting);
    if (!done) return done;
    return vector_.check_sum(ranks_);
  }

  // A mesh whose connections are polled by the caller's thread; made when it is first wanted.
  std::shared_ptr<gloo::rendezvous::Context> spinning() {
    if (spinning_) return spinning_;
    spinning_ = connect("spin");
    for (std::uint32_t peer = 0; peer < ranks_; ++peer)
      if (peer != rank_) spinning_->getPair(static_cast<int>(peer))->setSync(true, true);
    return spinning_;
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
  gloo::rendezvous::FileStore store_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::rendezvous::Context> context_, spinning_;
  PeerVector vector_;
  std::map<std::uint32_t, std::unique_ptr<gloo::Algorithm>> algorithms_;
  std::map<std::uint32_t, bool> live_;
};

int serve(const std::string& board_folder, std::uint32_t rank) {
  auto board = RankBoard::open(board_folder);
  if (!board) {
    std::fprintf(stderr, "%s\n", board.error().message().c_str());
    return 1;
  }
  const std::string folder = board_folder + "/gloo";
  mkdir(folder.c_str(), 0700);
  int status = 1;
  try {
    GlooWork work(rank, (*board)->ranks(), folder);
    status = (*board)->serve(rank, work);
  } catch (const std::exception& problem) {
    (*board)->fail(rank, problem.what());
  }
  return status;
}

}  // namespace
}  // namespace gpunode::bench

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int status = gpunode::bench::serve(argv[1], static_cast<std::uint32_t>(std::atoi(argv[2])));
  std::fflush(stdout);
  std::_Exit(status);  // Gloo's own end may wait for peers that are gone
}
