// Training speed of the small GPT: 4 layers, 4 heads, 128 channels, context 64, batch 12 in
// 4 slices, 2 threads; rounds of ours and of PyTorch's alternate and the medians are compared.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/rng.hpp"
#include "tools/bench/benchmarks.hpp"
#include "tools/bench/flags.hpp"
#include "tools/bench/local_trainer.hpp"
#include "tools/bench/median.hpp"

#ifndef GPUNODE_BENCH_PEERS
#define GPUNODE_BENCH_PEERS "tools/bench/peers"
#endif

namespace gpunode::bench {
namespace {

struct Options {
  double seconds = 4;  // of a round
  int workers = 2;
  int rounds = 3;
  bool peer = true;
  double require = 0;
};

bool parse(int argc, char** argv, Options& options) {
  CLI::App flags;
  flags.add_flag("!--no-peer", options.peer);
  flags.add_option("--seconds", options.seconds)->check(CLI::PositiveNumber);
  flags.add_option("--workers", options.workers)->check(CLI::PositiveNumber);
  flags.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
  flags.add_option("--require", options.require);
  return parsed(flags, argc, argv);
}

// Tokens a second of wall time, and of CPU time summed over threads; the latter tells more where
// the machine is shared. Zeros: could not be measured.
struct Rate {
  double wall = 0, cpu = 0;
};

Rate median(const std::vector<Rate>& rates) {
  std::vector<double> wall, cpu;
  for (const Rate& rate : rates) {
    wall.push_back(rate.wall);
    cpu.push_back(rate.cpu);
  }
  return {bench::median(wall), bench::median(cpu)};
}

// PyTorch, tuned.
Rate measure_peer(const Options& options) {
  const std::string command =
      "OPENBLAS_CORETYPE=SKYLAKEX OMP_NUM_THREADS=" + std::to_string(options.workers) +
      " /usr/bin/python3 " GPUNODE_BENCH_PEERS "/torch_train.py --threads " +
      std::to_string(options.workers) + " --seconds " + std::to_string(options.seconds) +
      " 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return {};
  Rate rate;
  const int fields =
      std::fscanf(pipe, "tokens_per_second %lf per_cpu_second %lf", &rate.wall, &rate.cpu);
  const int status = pclose(pipe);
  return fields == 2 && status == 0 ? rate : Rate{};
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Rate measure_ours(LocalTrainer& trainer, std::uint64_t& step, double seconds,
                  std::size_t tokens_per_step, std::span<const std::uint8_t> text) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const double cpu_start = cpu_seconds();
  std::size_t steps = 0;
  for (;;) {
    auto report = trainer.step(++step, text);
    if (!report) {
      std::fprintf(stderr, "%s\n", report.error().message().c_str());
      return {};
    }
    ++steps;
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    const auto tokens = static_cast<double>(steps * tokens_per_step);
    if (elapsed >= seconds) return {tokens / elapsed, tokens / (cpu_seconds() - cpu_start)};
  }
}

}  // namespace

int train(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: gpunode-bench train [--seconds S] [--workers N] [--rounds R] [--no-peer] "
                 "[--require RATIO]\n");
    return 2;
  }
  auto model = model::make_model("gpt", {});
  auto backend = cpu::open_backend();
  TrainerOptions settings;
  settings.workers = options.workers;
  settings.optimizer.total_steps = 1'000'000;
  auto trainer = LocalTrainer::open(**model, *backend, settings);
  if (!trainer) {
    std::fprintf(stderr, "%s\n", trainer.error().message().c_str());
    return 1;
  }
  std::vector<std::uint8_t> text(1 << 20);
  for (std::size_t place = 0; place < text.size(); ++place)
    text[place] = static_cast<std::uint8_t>(32 + mix(7, place) % 64);
  const std::size_t tokens = settings.batch * (*model)->tokens_per_sample();

  std::uint64_t step = 0;
  measure_ours(**trainer, step, 0.5, tokens, text);  // warm up
  std::vector<Rate> ours, peers;
  for (int round = 0; round < options.rounds; ++round) {
    if (options.peer && (round == 0 || !peers.empty())) {
      const Rate rate = measure_peer(options);
      if (rate.wall > 0) peers.push_back(rate);
    }
    ours.push_back(measure_ours(**trainer, step, options.seconds, tokens, text));
  }
  std::printf("%s, batch %zu in %zu slices, %d threads, %s (%s)\n", (*model)->name().c_str(),
              settings.batch, settings.slices, options.workers,
              backend->capabilities().instruction_set.c_str(),
              backend->capabilities().library.c_str());
  const Rate own = median(ours);
  std::printf("gpunode  %.0f tokens/s (%.2f ms a step), %.0f a CPU second; median of %d rounds\n",
              own.wall, 1e3 * static_cast<double>(tokens) / own.wall, own.cpu, options.rounds);
  if (peers.empty()) {
    if (options.peer)
      std::printf("PyTorch  skipped: /usr/bin/python3 cannot import torch (python3-torch)\n");
    return 0;
  }
  const Rate peer = median(peers);
  const double ratio = own.wall / peer.wall;
  std::printf("PyTorch  %.0f tokens/s (%.2f ms a step), %.0f a CPU second; tuned\n", peer.wall,
              1e3 * static_cast<double>(tokens) / peer.wall, peer.cpu);
  std::printf("ratio    %.2f (%.2f in CPU time)\n", ratio, own.cpu / peer.cpu);
  if (ratio < options.require) {
    std::printf("FAILED: the ratio is below %.2f\n", options.require);
    return 1;
  }
  return 0;
}

}  // namespace gpunode::bench
