// The step runner: makes one step after the other, by one all-reduce each, until every member holds
// the same result; what is committed is for the core to say. The step before stays at hand, for
// peers that are late. Where the members' devices are a group (device_link.hpp), the sums of a step
// go by that, and by messages as ever if it breaks. Pure; owned by a JobCore. Memory: the gradients of two steps and the partial
// sums of one.
//
//   state     | begin     | partial sum        | message of the step    | end  | view
//   idle      | under way | kept               | kept (early)           | -    | idle
//   under way | -         | sent on, then held | taken in, then held    | -    | idle
//   held      | -         | -                  | complete, or disagreed | -    | idle, gives it away
//   complete  | -         | -                  | -                      | idle | idle, gives it away
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/collective/all_reduce.hpp"
#include "runtime/collective/float_pool.hpp"
#include "runtime/job/detail/job_context.hpp"
#include "runtime/job/device_link.hpp"
#include "runtime/job/early_steps.hpp"
#include "runtime/job/step_plan.hpp"
#include "runtime/job/watchdog.hpp"

namespace gpunode::job {

class StepRunner {
 public:
  StepRunner(const JobContext& job, Watchdog& watchdog);

  // Of step committed + 1. What came early is given to on_message by the caller, see take_early.
  void begin(Actions& out);
  EarlySteps::List take_early() { return early_.take(); }
  // Fails with invalid_argument where the sender follows another slice plan: the view is to end.
  Result<void> on_message(const NodeId& from, std::uint16_t rank, const StepMessage& message,
                          Actions& out);
  void keep_early(const NodeId& from, const JobMessage& message);
  // Whether the step under way got on; where it may not (`goes_on`), the sum is kept.
  bool on_partial(const PartialRange& range, bool goes_on, Actions& out);
  // Of a carried step: this member's sums are on their way; the result is here.
  void on_sums_whole(std::uint64_t compute_id, const collective::ComputeTimes& times);
  bool on_carried(const Carried& carried, Actions& out);
  // The group is broken: the step under way goes over the links.
  void on_group_broken();
  void on_tick(Actions& out);
  void on_reconnected(std::uint16_t rank, Actions& out);

  // Parts of the result that are here already, for who makes use of them before the commit.
  void tell_arrived(Actions& out);
  bool newly_held();  // once a step
  bool is_complete() const;
  // The step that is complete is the one before, from now on.
  const collective::AllReduce& end();
  // The step is committed: `told` of it, in this view, or nothing. Microseconds from held to now.
  std::uint32_t on_commit(const std::vector<collective::StepTimes>& told);
  void on_applied();
  // Another state is in place.
  void on_state_replaced();
  // A view was installed; `redo`: its first step is computed anew. The result of step committed +
  // 1, if it is held.
  std::optional<collective::AllReduce> on_view(bool redo);
  void follow_plan_of(const view::View& view) { plan_.begin(view); }
  void release();  // all memory, after the last step

  DeviceLink& link() { return link_; }
  std::uint64_t carried() const { return carried_; }  // results that came from device to device
  bool under_way() const { return exchange_.has_value(); }
  bool has_partials() const { return !partials_.empty(); }
  std::uint64_t step() const { return step_; }
  const std::optional<collective::AllReduce>& exchange() const { return exchange_; }
  const StepPlan& plan() const { return plan_; }
  Time began() const { return began_; }
  void begin_waiting() { began_ = job_.now; }  // nothing is under way before that
  // Of the last one committed here, or of the one under way, if that takes longer already.
  Duration step_time() const;

 private:
  // A partial sum of the step under way, or what is final of it so far.
  struct Partial {
    collective::SharedFloats sum;
    collective::DataFingerprint data_fingerprint;
    std::uint64_t final_elements = 0;
  };
  collective::AllReduce::Options options_of_step();
  void tell_places();
  void ask_compute(bool carries, Actions& out);
  void leave_group_if_asked(const NodeId& who, Actions& out);
  void send(std::uint64_t step, const std::vector<collective::SendTo>& sends, Actions& out);
  bool is_whole(const Partial& partial) const {
    return partial.final_elements == job_.options.element_count;
  }
  bool fits(const PartialRange& range) const;
  void drop_partials(std::uint64_t step);
  void close_places();

  const JobContext& job_;
  Watchdog& watchdog_;
  DeviceLink link_;
  StepPlan plan_;
  EarlySteps early_;
  std::shared_ptr<collective::FloatPool> results_;
  std::shared_ptr<collective::ChunkForm> form_;  // in which chunks travel

  std::optional<collective::AllReduce> exchange_, previous_;
  std::uint64_t step_ = 0;
  std::uint64_t carried_ = 0;
  Digest plan_digest_, previous_plan_digest_;
  std::map<collective::TreeNode, Partial> partials_;  // of step partial_step_
  std::uint64_t partial_step_ = 0;
  std::uint64_t compute_id_ = 0;  // the last one
  bool discard_kept_ = false;
  std::uint64_t told_held_ = 0;      // step whose fault point was passed
  std::uint64_t left_group_in_ = 0;  // step in which a peer went by messages

  collective::ComputeTimes compute_times_;
  collective::AfterTimes after_;                       // of the step before, as far as it is known
  std::uint64_t sent_bytes_ = 0, received_bytes_ = 0;  // of chunks, since that commit
  Time began_{}, held_at_{}, committed_at_{};
  Duration step_time_{};  // of the last one committed here
};

}  // namespace gpunode::job
