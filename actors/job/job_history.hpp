// What is remembered of a job over restarts of a node, and told to members that come in later: the
// steps that were committed, who computed how many slices of them, and what happened. It follows the
// job: steps that are undone are taken out of all figures, and where steps are missing nothing is
// counted but what came after them, until another member tells what was before. Pure; owned by the
// job's ledger. Keeps a bounded number of events and of commits.
//
//   steps     1 .. first - 1 | first .. before().step | commits(), one after another
//   known     nothing        | their sums             | each
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/clock.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/collective/data_fingerprint.hpp"

namespace gpunode::jobs {

// Slices by the node that computed them.
using SliceCounts = std::map<NodeId, std::uint64_t>;

class JobHistory {
 public:
  static constexpr std::size_t kEventsKept = 1000;
  static constexpr std::size_t kCommitsKept = 4096;

  struct Event {
    Time time;
    std::string text;
    NodeId by = {};  // who noted it; zero: this node
  };
  struct Commit {
    Time time{};
    std::uint64_t step = 0, view_id = 0;
    Digest state = {};                         // after the step; zero: not known, or not yet
    collective::DataFingerprint running = {};  // of what was fed up to the step
    std::optional<double> loss = {};
    std::shared_ptr<const SliceCounts> computed = {};
    bool skipped = false;  // the step changed nothing
  };

  // A history as it was told: `slices` and `skipped` are of the steps from `first` to `before`. False:
  // it cannot be one.
  bool begin_at(std::uint64_t first, Commit before, SliceCounts slices, std::uint64_t skipped);

  // The next step; or one later, if this node was away: then nothing is known of those before it.
  void add(Commit commit);
  // The job is at this step, and of how it came there nothing is known.
  void jump_to(Commit where);
  // The job goes on from this step.
  void undo_to(std::uint64_t step);
  // Puts what another member tells of the steps before first() in their place. False: it tells
  // nothing of them, or of another course of the job.
  bool take(JobHistory earlier);

  void add_event(Event event);
  // Those of another member that happened between the two, where this node was not there to note.
  void take_events(const JobHistory& other, Time after, Time before);

  // The step changed the state to this.
  void on_applied(std::uint64_t step, double loss, const Digest& state);
  void count_skipped(std::uint64_t step);
  // The newest event of this text gets another one, if it is kept.
  void change_event(const std::string& text, std::string to);

  // Null: it is not kept.
  const Commit* commit_of(std::uint64_t step) const;
  std::uint64_t first() const { return first_; }
  const Commit& newest() const { return commits_.empty() ? before_ : commits_.back(); }
  const Commit& before() const { return before_; }  // step 0: the job's beginning
  const SliceCounts& slices() const { return slices_; }
  std::uint64_t skipped() const { return skipped_; }
  const std::deque<Commit>& commits() const { return commits_; }  // oldest first
  const std::deque<Event>& events() const { return events_; }

 private:
  void trim();
  Commit* kept(std::uint64_t step);

  std::uint64_t first_ = 1;
  Commit before_;
  SliceCounts slices_;
  std::uint64_t skipped_ = 0;
  std::deque<Commit> commits_;
  std::deque<Event> events_;
};

}  // namespace gpunode::jobs
