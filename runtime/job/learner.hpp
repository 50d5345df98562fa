// The learner: the way of a node that lacks the members' state, from outside or from a few steps
// behind, while they go on. It fetches the state after some step, then follows the results of the
// steps since; one that was away for a short while needs the results alone. When only what a view
// change brings is missing it says that it is ready, and a view may name it; what a member lacks of
// the view's base it fetches here too. Pure; owned by a JobCore.
//
//   state     | a member told where it is | it is too far behind | all has come       | other history
//   idle      | follows, or fetches       | -                    | -                  | -
//   follows   | goes on there             | cut off              | next result, ready | idle
//   cut off   | fetches a state           | -                    | -                  | idle
//   fetches   | goes on there             | fetches a newer one  | gives the state    | idle
#pragma once

#include <map>
#include <optional>

#include "runtime/job/detail/job_context.hpp"
#include "runtime/job/result_fetch.hpp"
#include "runtime/job/state_transfer.hpp"

namespace gpunode::job {

class Learner {
 public:
  explicit Learner(const JobContext& job) : job_(job) {}

  // All of them leave what to do next to the caller: next(), take_state(), take_cut().
  void on_status(const NodeId& from, const StepStatus& status, Actions& out);
  void on_offer(const NodeId& from, const HistoryId& history, const StateMeta& meta, Actions& out);
  void on_part(const NodeId& from, const StatePart& part, Actions& out);
  void on_result(const NodeId& from, const ResultPart& part, Actions& out);
  void on_tick(Actions& out);
  void join_tick(Actions& out);  // asks to come in, and shows members how far the state has come
  void on_join_wanted() { join_asked_ = Time{}; }
  void on_view(const view::View& before);  // what is under way goes on with its members, or is void
  void on_reconnected(const NodeId& node);
  void on_gone(const NodeId& node);  // who answers nobody: what it owes is asked of others at once
  void on_installed();               // another state is in place
  // The state here is the view's: nothing more is fetched.
  void on_up_to_date(Actions& out);
  // Whether a member lacks only results that the others keep for it.
  bool is_late() const;
  // Fetches the state that the view starts from. False: nobody gives it.
  bool fetch_base(Actions& out);
  void drop();     // whatever is under way
  void on_load();  // the state that it lacks is at hand, and loaded

  // The next result in order, of step committed + 1.
  std::optional<ResultFetch::Complete> next(Actions& out);
  std::optional<FetchedState> take_state();
  // Once: the results that it lacks are gone, so a member's way in is another one.
  bool take_cut();

  // A member that for a while of this view has been given nothing of the state that it starts from.
  bool is_starved() const;
  bool is_under_way() const { return fetch_ || following_; }
  // Outside, it wants in, and for a while nobody that had a part in the job's last view has
  // answered.
  bool is_unanswered() const;
  const std::optional<StateFetch>& fetch() const { return fetch_; }
  void tell(JobStatus& status) const;

 private:
  bool learns() const;
  bool is_ready() const;
  std::uint64_t learned_bytes() const;
  std::uint64_t told_committed() const;
  void begin_clock();
  void follow();
  void fetch_some_state(Actions& out);
  void begin_fetch(StateFetch::Options chosen);
  void begin_fetch(std::uint64_t step);
  void tick_fetch(Actions& out);
  void drop_fetch();
  void drop_results();
  void carry_out(StateFetch::Effects& effects, Actions& out);

  const JobContext& job_;
  std::optional<ResultFetch> following_;
  std::optional<StateFetch> fetch_;
  HistoryId fetch_history_;
  std::optional<FetchedState> fetched_;
  bool cut_off_ = false;  // the results that it lacks are gone: it needs a state
  bool cut_told_ = false;
  std::map<NodeId, std::uint64_t> told_committed_;  // newest committed step of each member
  std::uint64_t told_from_ = 0;                     // the first step whose result a member keeps
  Time told_at_{};
  Time join_asked_{}, learn_asked_{}, fetch_asked_{};
  std::uint64_t margin_ = 0;  // steps ahead that a state is asked for

  // For people, and for how soon it is ready.
  std::optional<Time> began_;
  Duration took_{};
  std::uint64_t bytes_before_ = 0;  // of fetches that are over
  std::uint64_t results_ = 0;
  Time applied_at_{};
  Duration pace_{};  // time of one result
};

}  // namespace gpunode::job
