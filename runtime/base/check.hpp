// GPUNODE_CHECK: an invariant whose breach is our own bug. Always on; prints place, condition and
// detail, then aborts. Nothing that a peer, a file or a user sends may reach one.
#pragma once

#include <string>

namespace gpunode::detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& detail);
}

#define GPUNODE_CHECK(condition, text)                                         \
  do {                                                                         \
    if (!(condition)) [[unlikely]]                                             \
      ::gpunode::detail::check_failed(__FILE__, __LINE__, #condition, (text)); \
  } while (false)
