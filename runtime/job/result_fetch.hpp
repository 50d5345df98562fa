// A learner's way from a state of some steps ago to the one of now: the results of the committed
// steps since then, pulled in parts from all members at once and applied one after another. Reads
// of the next steps are asked for in advance and wait at the members, so a result leaves as soon as
// it is committed. What is under way is bounded in bytes. Pure; owned by a JobCore. Memory: the
// results under way.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/collective/shared_floats.hpp"
#include "runtime/job/job_message.hpp"
#include "runtime/job/state_transfer.hpp"

namespace gpunode::job {

class ResultFetch {
 public:
  struct Options {
    std::uint64_t first_step = 1;  // the result wanted first
    std::uint64_t last_step = 0;   // of the job
    std::uint64_t element_count = 0;
    std::uint32_t part_bytes = 256u << 10;
    std::uint64_t window_bytes = 4u << 20;              // under way at once; one part at least
    std::uint32_t window_steps = 32;                    // results under way at once
    Duration timeout = std::chrono::seconds(2);         // least silence of a slow member
    Duration first_timeout = std::chrono::seconds(10);  // before its first part
  };
  struct Complete {
    std::uint64_t step = 0;
    collective::SharedFloats result;
    Digest digest;
    collective::DataFingerprint data_fingerprint;
  };
  struct Effects {
    std::vector<StateSource::Reply> sends;
    std::string report;
  };

  explicit ResultFetch(Options options);

  // A member said how far it has committed, and the first step whose result it keeps.
  void on_source(Time now, const NodeId& node, std::uint64_t committed, std::uint64_t first_kept);
  // Only these can be asked; what was asked of others is asked again.
  void set_sources(const std::vector<NodeId>& nodes);
  // Later results are not wanted any more, or again.
  void limit_to(std::uint64_t last_step);
  // The connection was made anew: what was asked of it is lost.
  void lose(const NodeId& node);
  // The node is gone: it is asked no more until it says where it is.
  void drop(const NodeId& node);
  void on_part(Time now, const NodeId& from, const ResultPart& part, Effects& out);
  void on_tick(Time now, Effects& out);
  // The next result in order, verified; once each.
  std::optional<Complete> take(Time now, Effects& out);

  std::uint64_t told() const { return told_; }  // newest step that a member has committed
  // No member keeps the next result any more.
  bool fell_behind() const;
  bool has_sources() const { return !sources_.empty(); }
  std::uint64_t received_bytes() const { return received_bytes_; }

 private:
  struct Source {
    std::uint64_t committed = 0;
    std::uint64_t first_kept = 0;
    Time progress{};     // of its parts
    Duration timeout{};  // grows with the time that a part takes
    std::uint64_t load_bytes = 0;
  };
  struct Asked {
    NodeId source;
    Time at;
  };
  struct Growing {
    std::shared_ptr<std::vector<float>> values;
    std::vector<bool> have;
    std::uint64_t missing = 0;
    Digest digest;
    collective::DataFingerprint data_fingerprint;
  };
  using Place = std::pair<std::uint64_t, std::uint64_t>;  // step, part

  std::uint64_t part_count() const;
  std::uint32_t part_size(std::uint64_t part) const;
  void hear_of(Time now, std::uint64_t committed);
  void drop_late(Time now);
  void ask_more(Time now, Effects& out);
  bool ask(Time now, Place place, Effects& out);

  Options options_;
  std::uint64_t next_;
  std::uint64_t told_ = 0;
  std::map<NodeId, Source> sources_;
  std::map<std::uint64_t, Growing> growing_;
  std::map<Place, Asked> under_way_;
  std::uint64_t under_way_bytes_ = 0;
  std::uint64_t received_bytes_ = 0;
};

}  // namespace gpunode::job
