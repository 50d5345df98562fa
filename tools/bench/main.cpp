// gpunode-bench: measures parts of gpunode against named baselines in the same run, and prints the
// ratio. A baseline that is not installed is skipped with a line.
#include <cstdio>
#include <cstring>

#include "tools/bench/benchmarks.hpp"
#include "tools/bench/exchange_rank.hpp"

int main(int argc, char** argv) {
  struct Benchmark {
    const char* name;
    const char* text;
    int (*run)(int argc, char** argv);
  };
  static constexpr Benchmark kBenchmarks[] = {
      {"train", "tokens a second of two GPTs, against PyTorch", gpunode::bench::train},
      {"products", "matrix products, against the fastest of oneDNN", gpunode::bench::products},
      {"decode", "texts continued on the CPU, against how fast it reads memory",
       gpunode::bench::decode},
      {"batching", "rows answered together, against one by one, each before its deadline",
       gpunode::bench::batching},
      {"draft", "texts with a draft that guesses, against those without one",
       gpunode::bench::draft},
      {"rows", "products with independent rows, against reading the weights and oneDNN's sgemm",
       gpunode::bench::rows},
      {"overlap", "the exchange behind the computation, on a slow link", gpunode::bench::overlap},
      {"all-reduce", "the exact exchange, against Gloo and OpenMPI", gpunode::bench::all_reduce},
  };
  // A process that the all-reduce benchmark started.
  if (argc > 1 && std::strcmp(argv[1], "rank") == 0)
    return gpunode::bench::play_rank(argc - 1, argv + 1);
  if (argc > 1)
    for (const Benchmark& benchmark : kBenchmarks)
      if (std::strcmp(argv[1], benchmark.name) == 0) return benchmark.run(argc - 1, argv + 1);
  std::fprintf(stderr, "usage: gpunode-bench <benchmark> [options]\n");
  for (const Benchmark& benchmark : kBenchmarks)
    std::fprintf(stderr, "  %-10s %s\n", benchmark.name, benchmark.text);
  return 2;
}
