// Copies of a small job's checkpoints on its witnesses, so that the job outlives its members.
// Members offer their newest one with each wish for a lease; a witness fetches it as a learner
// fetches a state, and makes it durable on its own disk. Nobody waits for it: one is on its way at
// a time, the next is offered when all witnesses have this one, or nobody reads it any more. Pure;
// owned by a JobCore. Memory: one checkpoint at a time, on either side.
//
//   witness | newer one offered | all has come | no progress, promise | written
//   idle    | fetches           | -            | -                    | -
//   fetches | if nothing came   | writes       | idle                 | -
//   writes  | -                 | -            | idle, after 30 s     | idle
//
//   member  | newer one on disk              | asked for the one offered | another history
//   idle    | offers it                      | -                         | -
//   offers  | offers it, once all have this  | reads it, gives it        | idle
//
// Where a view goes back to a checkpoint that nobody holds who can compute, its holders give it to
// the members in the same way.
#pragma once

#include <optional>

#include "runtime/job/detail/job_context.hpp"
#include "runtime/job/durability.hpp"
#include "runtime/job/state_transfer.hpp"

namespace gpunode::job {

class Copies {
 public:
  Copies(const JobContext& job, const Durability& durability)
      : job_(job), durability_(durability) {}

  // As a member. True: another one is offered now, which is to be told.
  bool offer_tick();
  // Whether somebody who is given it has asked for the checkpoint that is offered, or for a part of
  // it. A node that is no member offers its newest one when it is asked for that. What is to be
  // sent of it waits for its turn in `replies`.
  bool on_question(const NodeId& from, const JobBody& body,
                   std::vector<StateSource::Reply>& replies, Actions& out);
  void on_saved_read(std::uint64_t token, SharedBytes state,
                     std::vector<StateSource::Reply>& replies);
  const Checkpoint& offered() const { return offered_; }
  bool is_read() const { return source_.is_busy(job_.now); }  // or was, a moment ago

  // As a witness.
  void on_offer(const LeaseAsk& ask, bool learns, Actions& out);
  void on_message(const NodeId& from, const JobBody& body, Actions& out);
  void fetch_tick(Actions& out);
  void on_reconnected(const NodeId& node);  // what it was asked for is lost
  void on_written();                        // the newest one on this node's disk is another now

  void on_lost(const view::CheckpointName& name);  // it is not on this node's disk any more
  void on_history();                               // all of them are void

 private:
  void offer();
  void carry_out(StateFetch::Effects& effects, Actions& out);
  void carry_out(StateSource::Effects& effects, std::vector<StateSource::Reply>& replies,
                 Actions& out) const;

  const JobContext& job_;
  const Durability& durability_;
  StateSource source_;
  Checkpoint offered_;
  std::optional<StateFetch> fetch_;
  view::CheckpointName name_;    // of `fetch_`
  std::optional<Time> written_;  // when the driver was asked to write it
};

}  // namespace gpunode::job
