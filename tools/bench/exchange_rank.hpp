// A rank of the all-reduce benchmark that gpunode-bench itself plays: the exact exchange over
// plain or sealed links, or the sealing and opening that sealed links do, by itself.
#pragma once

namespace gpunode::bench {

// rank MODE loopback|network BOARD RANK: exact-plain, exact-sealed, bf16-plain, int8-plain,
// topk-plain or crypto. Started by the benchmark.
int play_rank(int argc, char** argv);

}  // namespace gpunode::bench
