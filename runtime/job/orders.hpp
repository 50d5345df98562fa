// What people order: stop, resume, go back, recover by force. Its node carries an order in every
// promise until a view has carried it out, or a later one; so it does not matter who proposes, nor
// whether the first attempt fails. It is signed, and whoever acts on it looks at that: who may vote
// may not order. Pure; owned by a JobCore.
//
//   state   | later order | view that carries it or a later one | has expired | stopped view
//   none    | ordered     | -                                   | -           | told once
//   ordered | the later   | none                                | none        | told once
#pragma once

#include <optional>
#include <string>

#include "runtime/job/detail/job_context.hpp"

namespace gpunode::job {

class Orders {
 public:
  explicit Orders(const JobContext& job) : job_(job) {}

  // Whether it is about this job, later than what is known of here, and of one that may give it.
  // Fails with permission_denied or wrong_state.
  Result<void> may_be_taken(const view::SignedOrder& order) const;
  void take(const view::SignedOrder& order);
  void on_view(const view::View& before, Actions& out);  // says whose order it carries out
  // The one taken is too old, or its giver may order no longer: it is dropped, and told.
  void drop_if_void(Actions& out);
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
  // Given to this node, not yet carried out.
  const std::optional<view::SignedOrder>& order() const { return order_; }
  bool wants(view::OrderKind kind) const { return order_ && order_->kind == kind; }
  bool stop_told() const { return stop_told_; }

 private:
  const JobContext& job_;
  std::optional<view::SignedOrder> order_;
  Time ordered_at_{};
  bool stop_told_ = false;
  Time alone_told_{};  // when LostQuorum was last said
};

}  // namespace gpunode::job
