// Products with independent rows, as a model that answers multiplies: of few rows against what the
// same threads read of the weights alone, of many against oneDNN's sgemm, which tells no row its
// bits. Weights are others in each call, as from layer to layer, and more than caches hold.
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/detail/thread_team.hpp"
#include "kernels/tensor/buffer.hpp"
#include "tools/bench/benchmarks.hpp"
#include "tools/bench/flags.hpp"
#include "tools/bench/median.hpp"

namespace gpunode::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kWeightBytes = 192 << 20;  // in all, beyond any cache
struct Shape {
  std::int64_t columns, inner;
};
constexpr Shape kShapes[] = {{4096, 4096}, {3072, 768}, {768, 3072}};
constexpr std::int64_t kRows[] = {1, 4, 16, 64, 256};

struct Weights {
  explicit Weights(const Shape& of)
      : each(static_cast<std::size_t>(of.columns * of.inner)),
        values(std::max<std::size_t>(1, kWeightBytes / sizeof(float) / each) * each) {
    for (std::size_t at = 0; at < values.size(); ++at)
      values[at] = static_cast<float>(at * 2654435761u % 1021) / 1021 - 0.5f;
  }
  const float* next() {
    at = at + each < values.size() ? at + each : 0;
    return values.data() + at;
  }
  std::size_t each, at = 0;
  std::vector<float> values;
};

// Bits of all values, so that they are read: in chains that a core overlaps, asked for ahead of use.
std::uint64_t read_through(const float* values, std::size_t count) {
  std::uint64_t chains[8] = {};
  constexpr std::size_t kAhead = 2048;
  for (std::size_t at = 0; at + 16 <= count; at += 16) {
    __builtin_prefetch(values + std::min(at + kAhead, count - 1));
    for (std::size_t chain = 0; chain < 8; ++chain) {
      std::uint64_t bits;
      std::memcpy(&bits, values + at + 2 * chain, sizeof bits);
      chains[chain] |= bits;
    }
  }
  return *std::max_element(chains, chains + 8);
}

// Seconds of one call, on average over a round.
double seconds_of(double round, const std::function<void()>& call) {
  call();
  const auto start = Clock::now();
  double elapsed = 0;
  int calls = 0;
  for (; elapsed < round; ++calls) {
    call();
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return elapsed / calls;
}

struct Seconds {
  double reading, ours, sgemm;
};

Seconds measure(const Shape& of, std::int64_t M, ops::Backend& backend, cpu::ThreadTeam& team,
                Weights& weights, double round, int rounds) {
  const std::int64_t N = of.columns, K = of.inner;
  std::vector<float> x(static_cast<std::size_t>(M * K), 0.25f), y(static_cast<std::size_t>(M * N));
  auto stream = backend.open_stream();
  tensor::BufferPool none(backend.memory(), 0);
  tensor::Workspace workspace(none);
  std::atomic<std::uint64_t> seen = 0;
  std::vector<double> reading, ours, sgemm;
  for (int each = 0; each < rounds; ++each) {
    reading.push_back(seconds_of(round, [&] {
      const float* values = weights.next();
      const int parts = 4 * team.threads();
      const std::size_t part_size = weights.each / static_cast<std::size_t>(parts);
      team.run(parts, [&](int part) {
        seen |= read_through(values + static_cast<std::size_t>(part) * part_size, part_size);
      });
    }));
    ours.push_back(seconds_of(round, [&] {
      static_cast<void>(backend.operations().matmul(**stream, workspace,
                                                    {.a = {x.data(), {M, K}},
                                                     .b = {weights.next(), {N, K}},
                                                     .c = {y.data(), {M, N}},
                                                     .transpose_b = true,
                                                     .independent_rows = true}));
    }));
    sgemm.push_back(seconds_of(round, [&] {
      dnnl_sgemm('N', 'T', M, N, K, 1, x.data(), K, weights.next(), K, 0, y.data(), N);
    }));
  }
  return {median(reading), median(ours), median(sgemm)};
}

}  // namespace

int rows(int argc, char** argv) {
  double seconds = 0.2;
  int threads = 0, rounds = 5;
  CLI::App flags;
  flags.add_option("--seconds", seconds)->check(CLI::PositiveNumber);
  flags.add_option("--threads", threads)->check(CLI::NonNegativeNumber);
  flags.add_option("--rounds", rounds)->check(CLI::PositiveNumber);
  if (!parsed(flags, argc, argv)) {
    std::fprintf(stderr, "usage: gpunode-bench rows [--seconds S] [--threads N] [--rounds R]\n");
    return 2;
  }
  const auto backend = cpu::open_backend({.threads = threads});
  cpu::ThreadTeam team(threads);
  std::printf("%d threads, median of %d rounds, %s\n", team.threads(), rounds,
              backend->capabilities().instruction_set.c_str());
  for (const Shape& shape : kShapes) {
    Weights weights(shape);
    for (const std::int64_t M : kRows) {
      const Seconds took = measure(shape, M, *backend, team, weights, seconds, rounds);
      const double bytes = 4.0 * static_cast<double>(weights.each);
      const double flops = 2.0 * static_cast<double>(weights.each) * static_cast<double>(M);
      std::printf("%4ldx%ldx%ld  %6.1f GB/s %6.1f GFLOP/s  of reading %.2f  of sgemm %.2f\n",
                  static_cast<long>(M), static_cast<long>(shape.columns),
                  static_cast<long>(shape.inner), bytes / took.ours / 1e9, flops / took.ours / 1e9,
                  took.reading / took.ours, took.sgemm / took.ours);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace gpunode::bench
