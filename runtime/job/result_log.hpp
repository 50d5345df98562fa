// The newest results of a job, as a member keeps them for learners: a state of some steps ago and
// the results since then give the state of now, so nobody waits while a learner fetches the state.
// Pure; owned by a JobCore. Only results of committed steps get in. Memory: the newest result
// always, older ones up to a bound while a learner is on its way.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/collective/shared_floats.hpp"
#include "runtime/job/job_message.hpp"
#include "runtime/job/state_transfer.hpp"

namespace gpunode::job {

class ResultLog {
 public:
  struct Entry {
    std::uint64_t step = 0;
    collective::SharedFloats result;
    Digest digest;
    collective::DataFingerprint data_fingerprint;
  };

  // The result of a committed step. One that does not follow the newest starts the log anew. Reads
  // that waited for it are answered.
  void add(Entry entry, std::vector<StateSource::Reply>& out);
  // Drops the oldest until at most max_bytes are left, but never the newest.
  void trim(std::uint64_t max_bytes);
  void clear();
  // The first step whose result is here, or will be; `committed` is the newest committed step.
  std::uint64_t first_step(std::uint64_t committed) const;
  // A read of the next steps waits until they are committed; of an older one it is ignored.
  void on_read(const NodeId& from, const ResultRead& read, std::uint64_t committed,
               std::uint32_t part_bytes, std::vector<StateSource::Reply>& out);
  // It waits for no later step any more: it is a member now.
  void forget_waiting(const NodeId& node) { waiting_.erase(node); }

 private:
  const Entry* find(std::uint64_t step) const;
  static StateSource::Reply part_of(const NodeId& to, const ResultRead& read, const Entry& entry);

  std::deque<Entry> entries_;
  std::map<NodeId, std::vector<ResultRead>> waiting_;
};

}  // namespace gpunode::job
