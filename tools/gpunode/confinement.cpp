#include "tools/gpunode/confinement.hpp"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "runtime/carrier/carrier_process.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "runtime/storage/state_directory.hpp"

namespace gpunode::cli {
namespace {

using storage::Path;

// The driver makes the devices of its GPUs by a program with root's rights when CUDA is first used,
// which a confined process may not start: so another one uses it before. That one also has the
// threads that CUDA leaves.
void wake_driver() {
  if (!std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/nvidia-uvm"))
    return;
  const pid_t child = fork();
  if (child == 0) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    using Begin = int (*)(unsigned);
    if (auto begin = library ? reinterpret_cast<Begin>(dlsym(library, "cuInit")) : nullptr)
      begin(0);
    _exit(0);
  }
  while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// What CUDA and NCCL write: the GPUs themselves, memory that processes share, compiled kernels.
void add_device_paths(std::vector<Path>& writable) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", none))
    if (entry.path().filename().string().starts_with("nvidia")) writable.push_back(entry.path());
  writable.insert(writable.end(), {"/dev/shm", "/dev/infiniband"});
  if (const char* cache = std::getenv("CUDA_CACHE_PATH"); cache && *cache)
    writable.emplace_back(cache);
  else if (const char* home = std::getenv("HOME"); home && *home)
    writable.push_back(Path(home) / ".nv/ComputeCache");
}

}  // namespace

Result<security::SandboxState> confine(const std::string& state, bool uses_gpus) {
  storage::PosixFileSystem files;
  const auto made = storage::StateDirectory::make(files, state);
  if (!made) return made.error();
  security::SandboxRules rules{.writable = {*made, "/dev/null"}, .executable = {}};
  if (uses_gpus) {
    wake_driver();
    add_device_paths(rules.writable);
    if (const auto carrier = carrier::find_carrier()) rules.executable.emplace_back(*carrier);
  }
  return security::enter_sandbox(rules);
}

}  // namespace gpunode::cli
