#include "runtime/security/private_memory.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace gpunode::security {

Result<void> keep_memory_private() {
  // Both: a limit of no bytes does not hold for a system that pipes its dumps to a program.
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_CORE, &none) != 0 || ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
    return {ErrorCode::unsupported,
            std::string("memory cannot be kept out of core dumps: ") + std::strerror(errno)};
  return {};
}

}  // namespace gpunode::security
