// The benchmarks of gpunode-bench; each parses its own options and returns an exit status.
#pragma once

namespace gpunode::bench {

// train [--model NAMES] [--precision NAMES] [--seconds S] [--workers N] [--rounds R] [--no-peer]
//   [--wheel PYTHON] [--require]
// Status 1 with --require if a bar is missed.
int train(int argc, char** argv);

// products [--seconds S] [--threads N] [--rounds R] [--require]
// Status 1 with --require if a product is slower than 0.95 of oneDNN's.
int products(int argc, char** argv);

// decode [--model NAME] [--threads N] [--rounds N] [--tokens N] [--prompt N] [--texts N] [--require]
// Status 1 with --require if a bar is missed.
int decode(int argc, char** argv);

// batching [--seconds S] [--load X] [--deadline-ms N] [--threads N] [--require]
// Status 1 with --require if a bar is missed.
int batching(int argc, char** argv);

// draft [--threads N] [--rounds N] [--tokens N] [--layers N] [--texts LIST] [--later LIST]
//   [--temperature T] [--most TEXTS]
int draft(int argc, char** argv);

// rows [--seconds S] [--threads N] [--rounds R]
int rows(int argc, char** argv);

// all-reduce [--ranks LIST] [--sizes LIST] [--samples N] [--no-peer] [--no-sealed]
// [--mode LIST] [--rate MBIT] [--machines N] [--congestion NAME] [--json FILE] [--require]
// Status 1 with --require if a bar is missed.
int all_reduce(int argc, char** argv);

// overlap [--gpt] [--members N] [--slices N] [--samples N] [--layers N] [--channels N]
// [--context N] [--clip X] [--rounds N] [--require RATIO]
// Status 1 if a step takes more than RATIO times its computation.
int overlap(int argc, char** argv);

}  // namespace gpunode::bench
