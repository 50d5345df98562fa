// The device group of a view: whether the sums of a step may go from device to device instead of
// through the host's links. It stands when the driver of every member has joined; then DONE says so,
// and after a step in which every DONE did, the next one is carried (StepRunner). What breaks it
// costs one step the detour over the links and the view its group: the bits stay. Pure; owned by a
// JobCore.
//
//   state   | all near, rank 0 | invite made  | invite heard | driver: stands | driver: trouble | view
//   none    | opening          | -            | opening      | -              | -               | none
//   opening | -                | told to all  | -            | stands         | broken          | none
//   stands  | -                | -            | -            | -              | broken          | none
//   broken  | -                | -            | -            | -              | -               | none
// A view that ends closes its group. The invite is told again until everybody's DONE says that the
// group stands.
#pragma once

#include <string>
#include <vector>

#include "runtime/collective/step_times.hpp"
#include "runtime/job/detail/job_context.hpp"

namespace gpunode::job {

class DeviceLink {
 public:
  explicit DeviceLink(const JobContext& job) : job_(job) {}

  void on_view(Actions& out);
  // What the members told of the step that was committed, by rank; nothing: not known here.
  void on_commit(const std::vector<collective::StepTimes>& told, Actions& out);
  void on_tick(Actions& out);
  void on_message(const NodeId& from, const GroupInvite& invite, Actions& out);
  // The driver's answers to OpenGroup of that view: the invite, at rank 0; then what came of it, or
  // of a group that stood. `trouble` empty: it stands.
  void on_invite(const view::ViewName& view, Bytes invite, Actions& out);
  void on_group(const view::ViewName& view, const std::string& trouble, Actions& out);
  // The group is of no use for this step, nor for later ones.
  void break_off(const std::string& reason, std::uint64_t step, Actions& out);

  bool stands() const { return state_ == State::stands; }
  // The next step may be carried: all members are known to have the group.
  bool carries() const { return stands() && everybody_has_it_; }

 private:
  enum class State : std::uint8_t { none, opening, stands, broken };
  void open(Bytes invite, Actions& out);
  bool may_open() const;

  const JobContext& job_;
  // Of the members, as they told: a group of those that are apart goes over a network, in clear.
  enum class Where : std::uint8_t { unknown, near, apart };
  bool may_reach() const {
    return where_ == Where::near || (where_ == Where::apart && job_.options.link_between_machines);
  }
  State state_ = State::none;
  Where where_ = Where::unknown;
  view::ViewName view_;  // whose group it is
  Bytes invite_;         // at rank 0, once it is made
  Time told_{};          // when the invite was
  bool everybody_has_it_ = false;
};

}  // namespace gpunode::job
