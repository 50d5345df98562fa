#include "actors/job/told_ends.hpp"

namespace gpunode::jobs {

std::vector<JobId> ToldEnds::add(const JobId& id, std::int64_t since, std::size_t bytes) {
  drop(id);
  told_[id] = {since, bytes};
  oldest_.insert({since, id});
  bytes_ += bytes;
  std::vector<JobId> dropped;
  while (told_.size() > kMost || bytes_ > kMostBytes) {
    dropped.push_back(oldest_.begin()->second);
    drop(dropped.back());
  }
  return dropped;
}

void ToldEnds::drop(const JobId& id) {
  const auto found = told_.find(id);
  if (found == told_.end()) return;
  oldest_.erase({found->second.since, id});
  bytes_ -= found->second.bytes;
  told_.erase(found);
}

}  // namespace gpunode::jobs
