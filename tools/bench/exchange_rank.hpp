// A rank of the all-reduce benchmark that gpunode-bench itself plays: the exact exchange over
// plain or sealed links, or the sealing and opening that sealed links do, by itself.
#pragma once

namespace gpunode::bench {

// rank MODE MACHINES BOARD RANK: exact-plain, exact-sealed, hierarchical-plain, ring-plain, bf16-plain,
// int8-plain, topk-plain or crypto; 0 machines: over loopback. Started by the benchmark.
int play_rank(int argc, char** argv);

}  // namespace gpunode::bench
