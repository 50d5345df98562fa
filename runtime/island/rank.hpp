// The rank process: what `gpunode nccl-rank` runs, started by a node's island and by nobody else.
// It owns the communicator and the GPU's memory, does one thing at a time, and may hang: its node
// kills it then. It has no secrets and opens no file of the node.
#pragma once

namespace gpunode::island {

// The word of the command line that makes the program a rank process.
inline constexpr const char* kRankCommand = "nccl-rank";

// Runs until the node closes the control socket, or dies. Returns the process's exit code; 2: it
// was started by hand.
int run_rank();

}  // namespace gpunode::island
