// gpunode-faulty: the program as it is, but for the faults that its environment asks for. Never
// installed.
#include "actors/node/node_parts.hpp"
#include "tests/support/fault_hooks.hpp"
#include "tools/gpunode/command.hpp"

int main(int argc, char** argv) {
  gpunode::testing::FaultyParts faults = gpunode::testing::install_faults();
  gpunode::cli::Platform platform{[faults](gpunode::NodeConfig config) {
    gpunode::node::NodeParts parts;
    parts.files = faults.files;
    parts.clock = faults.clock;
    return gpunode::node::start_node(std::move(config), std::move(parts));
  }};
  return gpunode::cli::run_program(argc, argv, platform);
}
