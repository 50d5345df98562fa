// State transfer to a learner: pulled in parts from all holders at once, verified by the digest of
// the whole, resumed from other holders when one falls silent. Pure; owned by a JobCore. The view
// waits meanwhile. Memory: one copy of the state at the learner, one snapshot at each source.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/job/job_message.hpp"

namespace gpunode::job {

// The holder's side.
class StateSource {
 public:
  struct Reply {
    NodeId to;
    JobBody body;
  };
  struct Effects {
    std::vector<Reply> replies;
    std::optional<std::uint64_t> read_token;  // ask the driver for the state of the current step
  };

  // The state of this step is what the driver holds now; parts of an older one are void.
  void set_current(StateMeta meta);
  // Nothing can be read now.
  void clear();
  void on_ask(const NodeId& from, const StateAsk& ask, Effects& out);
  void on_snapshot(std::uint64_t token, SharedBytes state, Effects& out);
  void on_read(const NodeId& from, const StateRead& read, std::uint32_t part_bytes, Effects& out);

 private:
  std::optional<StateMeta> current_;
  std::optional<SharedBytes> snapshot_;
  std::optional<std::uint64_t> pending_token_;
  std::uint64_t next_token_ = 1;
  std::set<NodeId> asking_;
};

// The learner's side: fetches the state after one step.
class StateFetch {
 public:
  struct Options {
    std::uint64_t step = 0;
    Digest state_digest;   // expected; zero: believe the sources
    Digest result_digest;  // expected; zero: unknown
    std::vector<NodeId> sources;
    std::uint64_t max_bytes = 0;
    std::uint32_t part_bytes = 1u << 20;
    std::uint32_t window = 4;  // parts under way from one source
    Duration ask_every = std::chrono::milliseconds(500);
    Duration part_timeout = std::chrono::milliseconds(2000);
  };
  struct Effects {
    std::vector<StateSource::Reply> sends;
    std::optional<SharedBytes> complete;  // verified
    std::string report;
  };

  explicit StateFetch(Options options);
  // The holders changed while the state stayed the same: what has arrived is kept.
  void set_sources(std::vector<NodeId> sources);
  void on_tick(Time now, Effects& out);
  void on_meta(Time now, const NodeId& from, const StateMeta& meta, Effects& out);
  void on_part(Time now, const NodeId& from, const StatePart& part, Effects& out);

  std::uint64_t step() const { return options_.step; }
  const std::optional<StateMeta>& meta() const { return meta_; }
  std::uint64_t received_bytes() const { return received_bytes_; }
  const std::vector<NodeId>& sources() const { return options_.sources; }

 private:
  struct Asked {
    NodeId source;
    Time at;
  };
  void request_more(Time now, Effects& out);
  void finish(Effects& out);
  void restart();

  Options options_;
  std::optional<Time> asked_at_;
  std::optional<StateMeta> meta_;
  std::set<NodeId> holders_;  // sources that offered exactly meta_
  std::shared_ptr<Bytes> buffer_;
  std::vector<bool> have_;
  std::uint64_t first_missing_ = 0;
  std::map<std::uint64_t, Asked> under_way_;  // part number -> from whom
  std::uint64_t received_bytes_ = 0;
};

}  // namespace gpunode::job
