// What other nodes told last of jobs in which this one takes no part. The directory hides the words
// of a node that is gone; a job whose nodes are all gone is not forgotten with them, as they may
// come back. Bounded; owned by the job board, told of what the directory shows.
#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "actors/cluster_state.hpp"
#include "actors/job/job_names.hpp"
#include "actors/job/job_note_codec.hpp"
#include "runtime/base/ids.hpp"

namespace gpunode::jobs {

class LastHints {
 public:
  void on_hint(Time now, const JobId& id, const NodeId& by, const JobHint& hint);

  // Appends the jobs of which the list says nothing.
  void add_to(nlohmann::json& list, const ClusterSnapshot& cluster, Time now) const;
  // How far the job was, and who told that when.
  std::optional<std::string> text_of(const JobId& id, const ClusterSnapshot& cluster,
                                     Time now) const;
  struct Last {
    JobHint hint;
    NodeId by;
    Time at{};
    std::set<NodeId> tellers;  // who had a part in it
  };
  // The newest that was heard of the job: null, nothing.
  const Last* newest(const JobId& id) const {
    const auto found = by_job_.find(id);
    return found == by_job_.end() ? nullptr : &found->second;
  }
  void add_to(JobNames& names) const;
  void forget(const JobId& id) { by_job_.erase(id); }

 private:
  static std::string reason_of(const Last& last, const ClusterSnapshot& cluster, Time now);

  std::map<JobId, Last> by_job_;
};

}  // namespace gpunode::jobs
