// How often members, or keys over HTTP, asked for what they may not: counted, and written to the audit log now
// and then, so that none fills it. As many lines as there are of these. Any thread.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/ids.hpp"

namespace gpunode::security {

template <class By>
class RefusalCountsOf {
 public:
  struct Refused {
    std::uint64_t count = 0;
    std::string newest;  // what it asked for
  };

  void add(const By& by, std::string_view what) {
    std::lock_guard lock(mutex_);
    Refused& refused = counts_[by];
    ++refused.count;
    refused.newest = what;
  }
  // All since the last time.
  std::map<By, Refused> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(counts_, {});
  }

 private:
  std::mutex mutex_;
  std::map<By, Refused> counts_;
};
using RefusalCounts = RefusalCountsOf<NodeId>;

}  // namespace gpunode::security
