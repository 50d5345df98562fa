// Views on their way from node to node: which one each peer has, who is told of this one, and where
// a node that is stuck asks for a newer. Parts of a job that went on apart have nothing to say to
// each other, so each lets the others hear from time to time which history it is in. Pure; owned by
// a JobCore.
//
//   a peer's view | message of it          | tick
//   older         | told ours, at most every 100 ms | -
//   the same      | -                      | -
//   newer         | asked for it           | asked for it, while this node waits for a view
#pragma once

#include <map>

#include "runtime/job/detail/job_context.hpp"

namespace gpunode::job {

class ViewNews {
 public:
  ViewNews(const JobContext& job, view::DecidedView decided)
      : job_(job), decided_(std::move(decided)) {}

  void on_view(view::DecidedView decided);
  void on_ready(const NodeId& member) { peers_[member].ready = true; }  // it has the view's state
  void on_message(const NodeId& from, const view::ViewName& theirs);
  // The view of this node, and how it was decided; `always`: also if it was told a moment ago.
  void tell(const NodeId& to, bool always, Actions& out);
  void ask(const NodeId& from, Actions& out);
  // Frozen for a while: the next view may have been decided without this node hearing of it.
  void ask_tick(Actions& out);
  // Whether to tell people that a view was refused here, or this node by others: that may come
  // again and again.
  bool tells_refusal();
  // Whether those outside the view are to hear of it now.
  bool is_gossip_due();

  // The members have installed the view, and have its state if it is from here. Who seems to be
  // gone may be back in a moment and wait for a vote, so nobody is left out.
  bool all_know() const;
  // Asks the members that are not known to have this view; for a node that leaves.
  void ask_members(Actions& out) const;

 private:
  struct Peer {
    view::ViewName view;  // newest that it is known to have installed
    Time told{};          // when a VIEW was last sent to it
    Time asked{};         // when a VIEW was last asked of it
    bool ready = false;   // it has said that it holds the state of this view
  };
  bool knows(const NodeId& node) const;

  const JobContext& job_;
  view::DecidedView decided_;  // how the current view was decided
  std::map<NodeId, Peer> peers_;
  Time asked_{};
  Time gossiped_{};
  Time refusal_told_{};
};

}  // namespace gpunode::job
