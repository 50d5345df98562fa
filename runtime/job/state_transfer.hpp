// State transfer to a learner: pulled in parts from all holders at once, verified by the digest of
// the whole, resumed from other holders when one falls silent. Pure; owned by a JobCore. Members go
// on meanwhile: what they give is an immutable copy of the state between two steps. So that all of
// them copy the same, a learner asks for the state after a step that is still to come. Memory: one
// copy of the state at the learner, one snapshot at each source while it is read.
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

  // The driver holds the state after this step, until clear_current().
  void set_current(Time now, StateMeta meta, Effects& out);
  void clear_current() { current_.reset(); }
  // Forgets everything: the states of this history are void.
  void clear();
  // urgent: the view waits for this very step. Else a snapshot of another step that is being read
  // may be offered instead.
  void on_ask(Time now, const NodeId& from, const StateAsk& ask, bool urgent, Effects& out);
  void on_snapshot(Time now, std::uint64_t token, SharedBytes state, Effects& out);
  void on_read(Time now, const NodeId& from, const StateRead& read, std::uint32_t part_bytes,
               Effects& out);
  // Frees a snapshot that nobody has read for a while.
  void on_tick(Time now);
  // A state from which nobody can go on any more is not offered.
  void forget_before(std::uint64_t step);
  bool has_snapshot() const { return snapshot_.has_value(); }
  // A snapshot is being made, or was read a moment ago.
  bool is_busy(Time now) const { return pending_.has_value() || in_use(now); }

 private:
  struct Pending {
    std::uint64_t token = 0;
    StateMeta meta;
    std::set<NodeId> asking;
  };
  struct Snapshot {
    StateMeta meta;
    SharedBytes bytes;
    Time used{};
  };
  void read_current(const NodeId& from, Effects& out);
  bool in_use(Time now) const;

  std::optional<StateMeta> current_;
  std::optional<Pending> pending_;
  std::optional<Snapshot> snapshot_;
  std::uint64_t next_token_ = 1;
  std::map<NodeId, std::uint64_t> wanted_;  // who waits for the state after a step to come
};

// A state that was fetched and verified.
struct FetchedState {
  StateMeta meta;
  SharedBytes bytes;
  HistoryId history;  // that it belongs to
};

// The learner's side: fetches the state after one step.
class StateFetch {
 public:
  struct Options {
    std::uint64_t step = 0;
    Digest state_digest;   // expected; zero: believe the sources
    Digest result_digest;  // expected; zero: unknown
    std::vector<NodeId> sources;
    Time began{};
    std::uint64_t size_bytes = 0;  // of every state of the job
    std::uint32_t part_bytes = 256u << 10;
    std::uint32_t window = 4;  // parts under way from one source
    Duration ask_every = std::chrono::milliseconds(500);
    Duration timeout = std::chrono::seconds(2);         // least silence of a slow source
    Duration first_timeout = std::chrono::seconds(10);  // before its first part
  };
  struct Effects {
    std::vector<StateSource::Reply> sends;
    std::optional<SharedBytes> complete;  // verified
    std::string report;
  };

  explicit StateFetch(Options options);
  // The holders changed while the state stayed the same: what has arrived is kept.
  void set_sources(std::vector<NodeId> sources);
  // These may have it too; for a state that is known by its digest.
  void ask_also(const std::vector<NodeId>& nodes);
  // The connection was made anew: what was asked of it is lost.
  void lose(const NodeId& source);
  // It is gone: no part is asked of it until it offers the state again.
  void drop(const NodeId& source);
  void on_tick(Time now, Effects& out);
  void on_meta(Time now, const NodeId& from, const StateMeta& meta, Effects& out);
  void on_part(Time now, const NodeId& from, const StatePart& part, Effects& out);
  // Either of them; other messages are not for it.
  void on_message(Time now, const NodeId& from, const JobBody& body, Effects& out);

  Time progressed() const { return progressed_; }  // when it began, or a part of it came last
  // Nobody offers the state any more of which parts have come.
  bool is_abandoned(Time now) const;
  std::uint64_t step() const { return options_.step; }
  const Digest& digest() const { return options_.state_digest; }  // expected; zero: any
  const std::optional<StateMeta>& meta() const { return meta_; }
  std::uint64_t received_bytes() const { return received_bytes_; }
  const std::vector<NodeId>& sources() const { return options_.sources; }

 private:
  struct Asked {
    NodeId source;
    Time at;
  };
  struct Holder {
    Time progress{};
    Duration timeout{};  // grows with the time that a part takes
  };
  bool is_source(const NodeId& node) const;
  Duration silence_of(const NodeId& source) const;
  void refuse(const NodeId& from, std::string why, Effects& out);
  void request_more(Time now, Effects& out);
  StateMeta commonest_offer() const;
  void finish(Effects& out);
  void restart();

  Options options_;
  std::optional<Time> asked_at_;
  Time progressed_{};
  Time offered_{};  // when a source last offered the state or a part
  std::optional<StateMeta> meta_;
  std::map<NodeId, Holder> holders_;    // sources that offered this very state
  std::map<NodeId, StateMeta> offers_;  // what each has told of it
  std::map<NodeId, Duration> silence_;  // that is borne of those that were late before
  std::set<NodeId> refused_;            // whose offer was reported
  std::shared_ptr<Bytes> buffer_;
  std::vector<bool> have_;
  std::uint64_t first_missing_ = 0;
  std::map<std::uint64_t, Asked> under_way_;  // part number -> from whom
  std::uint64_t received_bytes_ = 0;
};

}  // namespace gpunode::job
