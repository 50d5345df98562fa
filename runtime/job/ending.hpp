// The end of a job. The state after the last step is a checkpoint like any other: whoever made the
// last step tells its digest, and whoever lacks it fetches it by that. Members tell each other
// until all are through; a node that was no member at the end, but wanted to be, and one that hears
// that the job was finished in another history or before this view began, takes that result instead
// of computing anything. Pure; owned by a JobCore.
//
//   state    | last step committed | all told, or time over | who is finished tells | result installed
//   open     | tells               | -                      | fetches, or through   | -
//   tells    | -                   | finished               | noted, or through     | -
//   fetches  | -                   | open (no source left)  | one source more       | finished, through
//   finished | -                   | lets gradients go      | answered              | -
#pragma once

#include <optional>
#include <set>
#include <string>

#include "runtime/job/detail/job_context.hpp"
#include "runtime/job/joiners.hpp"
#include "runtime/job/state_transfer.hpp"

namespace gpunode::job {

class Ending {
 public:
  Ending(JobContext& job, const Joiners& joiners) : job_(job), joiners_(joiners) {}

  // What a node told of itself that has done the last step, in the history of its view.
  enum class Heard : std::uint8_t {
    nothing,    // new
    member_is,  // a member of the view has done the last step
    fetches,    // this node takes the result that was told, and computes nothing more
    is_through  // this node wants no result, and computes nothing more
  };
  Heard on_status(const NodeId& from, const HistoryId& history, const StepStatus& status,
                  Actions& out);
  // What others give of the result that is on its way here; nothing else is taken.
  void on_message(const NodeId& from, const JobBody& body, Actions& out);
  void on_reconnected(const NodeId& node);  // what it was asked for is lost
  // False: nobody is left that has the result, and the job goes on here as if it had never been
  // told.
  bool on_tick(Actions& out);
  std::optional<FetchedState> take();  // the result, once
  void on_installed(Actions& out);     // it is the state here
  void on_history();                   // which is another now

  // The last step is committed here: tells the others until all have told. `may`: it is certain.
  void tell(bool may, Actions& out);
  void on_last_step() { done_at_ = job_.now; }
  Time done_at() const { return done_at_; }
  // Sums of the last step are held for who lacks it. Who comes later still gets the state after it.
  bool releases();

  const std::set<NodeId>& sources() const { return sources_; }
  std::uint64_t received_bytes() const { return fetch_ ? fetch_->received_bytes() : 0; }
  // Where this node is, for whoever asks. `results_from`: what it keeps for learners.
  StepStatus status(std::uint64_t results_from) const;

 private:
  bool takes(const NodeId& from, const HistoryId& history, const StepStatus& status) const;
  Heard fetch_from(const NodeId& from, const HistoryId& history, const StepStatus& status,
                   Actions& out);
  void drop_result();
  bool give_up(const char* why, Actions& out);
  void finish(std::string how, Actions& out);
  void carry_out(StateFetch::Effects& effects, Actions& out);

  JobContext& job_;
  const Joiners& joiners_;
  std::set<NodeId> through_;  // members that have said so
  Time done_at_{};            // when the last step was committed
  Time told_{};
  bool released_ = false;

  std::set<NodeId> sources_;  // who have the result that is fetched
  std::optional<StateFetch> fetch_;
  HistoryId fetch_history_;
  std::optional<FetchedState> fetched_;
};

}  // namespace gpunode::job
