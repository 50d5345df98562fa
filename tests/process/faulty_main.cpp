// gpunode-faulty: the program as it is, but for the faults that its environment asks for. Never
// installed.
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "actors/node/node_parts.hpp"
#include "tests/support/fault_hooks.hpp"
#include "tools/gpunode/command.hpp"

namespace {
constexpr std::size_t kLarge = std::size_t{4} << 20;  // a state, never a message
const char* no_memory_while = nullptr;                // a file
}  // namespace

void* operator new(std::size_t size) {
  if (size >= kLarge && no_memory_while && access(no_memory_while, F_OK) == 0)
    throw std::bad_alloc();
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

int main(int argc, char** argv) {
  no_memory_while = std::getenv("GPUNODE_FAULT_NO_MEMORY_WHILE");
  gpunode::testing::FaultyParts faults = gpunode::testing::install_faults();
  gpunode::cli::Platform platform{[faults](gpunode::NodeConfig config) {
    gpunode::node::NodeParts parts;
    parts.files = faults.files;
    parts.clock = faults.clock;
    parts.version = faults.version;
    return gpunode::node::start_node(std::move(config), std::move(parts), faults.add_devices);
  }};
  return gpunode::cli::run_program(argc, argv, platform);
}
