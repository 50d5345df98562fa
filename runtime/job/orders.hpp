// What people order: stop, resume, go back, recover by force. An order is a wish that its node
// carries in every promise until a view has carried it out; so it does not matter who proposes, nor
// whether the first attempt fails. Pure; owned by a JobCore.
//
//   state   | order          | view that carries it out, or needs no order to go on | stopped view
//   none    | wished         | -                                                    | told once
//   wished  | wished instead | none                                                 | told once
#pragma once

#include <optional>
#include <string>

#include "runtime/job/detail/job_context.hpp"

namespace gpunode::job {

class Orders {
 public:
  explicit Orders(const JobContext& job) : job_(job) {}

  void take(view::Wish wish, std::uint64_t step = 0);
  void on_view();
  // Why the view is to end for an order, if it is time: a stop waits for the step under way.
  std::optional<std::string> due(bool in_step) const;
  // In a stopped view, once the state at its base is in place.
  void tell_stopped(Actions& out);
  // Who is left goes on alone, where the job says so: the lowest live rank first, and never who
  // holds no state, as all it could do is begin anew. Paused since `since`.
  void watch_lost_quorum(Time since, Actions& out);

  // Whether this node has a part in the job that an order could change. Fails with
  // invalid_argument.
  Result<void> has_part() const;
  // Likewise, to recover it by force: who is outside may, while all that had a part are silent; who
  // only votes may with a copy of the checkpoint of step `durable` or a later one, and else fails
  // with wrong_state.
  Result<void> may_recover(std::uint64_t durable) const;
  view::Wish wish() const { return wish_; }
  std::uint64_t resume_from() const { return resume_from_; }  // step, of Wish::resume_from
  bool stop_told() const { return stop_told_; }

 private:
  const JobContext& job_;
  view::Wish wish_ = view::Wish::none;  // asked of this node, not yet carried out
  std::uint64_t resume_from_ = 0;
  Time wished_at_{};
  bool stop_told_ = false;
  Time alone_told_{};  // when LostQuorum was last said
};

}  // namespace gpunode::job
