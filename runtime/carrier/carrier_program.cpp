// Finds the carrier's program. A path that is set by hand is the only one looked at.
#include <unistd.h>

#include <cstdlib>

#include "runtime/carrier/carrier_process.hpp"

namespace gpunode::carrier {
namespace {

constexpr const char* kProgram = "gpunode-carrier";

std::string own_folder() {
  std::string path(4096, '\0');
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return path.substr(0, path.rfind('/') + 1);
}

}  // namespace

Result<std::string> find_carrier() {
  if (const char* set = std::getenv("GPUNODE_CARRIER"); set && *set) {
    if (access(set, X_OK) == 0) return std::string(set);
    return Error{ErrorCode::unsupported, "GPUNODE_CARRIER names " + std::string(set) +
                                             ", which is no program that can be started"};
  }
  const std::string beside = own_folder() + kProgram, installed = GPUNODE_CARRIER_INSTALLED;
  for (const std::string& path : {beside, installed})
    if (access(path.c_str(), X_OK) == 0) return path;
  return Error{ErrorCode::unsupported,
               "the program gpunode-carrier, which NCCL runs in, is neither " + beside + " nor " +
                   installed + ": install it there, or name it in GPUNODE_CARRIER"};
}

}  // namespace gpunode::carrier
