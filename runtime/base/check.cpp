#include "runtime/base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace gpunode::detail {

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  std::fprintf(stderr, "gpunode: broken invariant at %s:%d: %s: %s\n", file, line, condition,
               detail.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace gpunode::detail
