// Threads that compute for as long as they are let: the kernel is told that others come first, so that
// a message that came meanwhile does not wait for their turn to end.
#pragma once

#include <sys/resource.h>

namespace gpunode {

namespace detail {
inline thread_local bool has_low_priority = false;
}  // namespace detail

// The calling thread, and those that it will start, have a tenth of the weight of others of this
// process from now on, for good: a thread cannot be raised again without a privilege.
inline void take_low_priority() {
  constexpr int kNice = 10;
  if (::setpriority(PRIO_PROCESS, 0, kNice) == 0) detail::has_low_priority = true;
}

// Whether the calling thread is one. It may lose its core for many milliseconds anywhere, so it holds
// no lock that others wait for while it calls into the kernel.
inline bool has_low_priority() {
  return detail::has_low_priority;
}

}  // namespace gpunode
