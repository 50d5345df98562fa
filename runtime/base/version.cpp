#include "runtime/base/version.hpp"

namespace gpunode {

std::string_view program_version() {
  return GPUNODE_VERSION;
}

}  // namespace gpunode
