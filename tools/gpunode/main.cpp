// gpunode: the program that a person runs. The walk goes on in actors/node/node.cpp, which `up` and
// `join` start; every other command asks the running node over its socket, or reads the state
// directory. The list of commands is commands.cpp.
#include "tools/gpunode/command.hpp"

int main(int argc, char** argv) {
  gpunode::cli::Platform platform{
      [](gpunode::NodeConfig config) { return gpunode::Node::start(std::move(config)); }};
  return gpunode::cli::run_program(argc, argv, platform);
}
