// The donor: what a member gives to those on their way in: its state after some step, and the
// results of the steps since. They come last: what they get waits behind the member's own sums, but
// no longer than Timings::give_way, so that they come in at all. Pure; owned by a JobCore. Memory:
// one snapshot while it is read, and the results that are kept.
//
//   state    | asked for a state  | step committed  | it is in place | another history
//   empty    | waits for the step | -               | offers         | -
//   offers   | snapshot wanted    | empty           | -              | empty
//   snapshot | part queued        | goes on with it | offers both    | empty
//
//   of a result | asked for          | its step is committed | another history
//   to come     | waits for the step | kept; who waits has it| -
//   kept        | part queued        | -                     | void
#pragma once

#include <deque>

#include "runtime/job/detail/job_context.hpp"
#include "runtime/job/joiners.hpp"
#include "runtime/job/result_log.hpp"
#include "runtime/job/state_transfer.hpp"

namespace gpunode::job {

class Donor {
 public:
  Donor(const JobContext& job, const Joiners& joiners) : job_(job), joiners_(joiners) {}

  void on_tick() { source_.on_tick(job_.now); }
  // The state is in place, and this node may give it.
  void offer(Actions& out);
  // A question of somebody who may have what it asks for; see may_learn.
  void on_message(const NodeId& from, const JobBody& body, Actions& out);
  void on_state_read(std::uint64_t token, SharedBytes state, Actions& out);
  // The result of a step that is committed, and, by a test-only fault, of one that is only held.
  void keep_result(std::uint64_t step, const collective::SharedFloats& result, const Digest& digest,
                   const collective::DataFingerprint& data_fingerprint);
  void on_commit() { source_.clear_current(); }  // the state is about to change
  void forget_states() { source_.clear(); }      // they are void
  void forget_results() { log_.clear(); }
  void forget_all();
  void on_member(const NodeId& node) { log_.forget_waiting(node); }
  // The first step whose result is here, or will be.
  std::uint64_t results_from() const { return log_.first_step(job_.progress.committed()); }

  // Offers at once; parts wait for their turn.
  void reply(std::vector<StateSource::Reply>& replies, Actions& out);
  // What learners are owed, after everything that members are owed: `busy` with that, or not.
  // `usual_step`: how long a step takes.
  void serve(bool busy, Duration usual_step, Actions& out);

 private:
  bool may_learn(const NodeId& node) const;
  Duration pause(Duration usual_step) const;
  void carry_out(StateSource::Effects& effects, Actions& out);

  const JobContext& job_;
  const Joiners& joiners_;
  StateSource source_;
  ResultLog log_;
  std::deque<StateSource::Reply> queued_;  // until this node's own sums are through
  Time served_{};                          // when a queued part left last
};

}  // namespace gpunode::job
