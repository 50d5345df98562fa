// Which jobs that are over a node tells the others of: the newest, as a node's part of the directory
// is bounded, and jobs at work, served models and the node's health are told there too.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/ids.hpp"

namespace gpunode::jobs {

class ToldEnds {
 public:
  static constexpr std::size_t kMost = 512, kMostBytes = 128 * 1024;  // of 1024, and of 256 KiB

  // A job that is over is told of, in so many bytes; `since` orders them, in microseconds since
  // 1970. Returns those that are not to be told of any more, which may be this very one.
  std::vector<JobId> add(const JobId& id, std::int64_t since, std::size_t bytes);
  // It is at work again, or nothing is told of it.
  void drop(const JobId& id);

 private:
  struct Told {
    std::int64_t since = 0;
    std::size_t bytes = 0;
  };
  std::map<JobId, Told> told_;
  std::set<std::pair<std::int64_t, JobId>> oldest_;
  std::size_t bytes_ = 0;
};

}  // namespace gpunode::jobs
