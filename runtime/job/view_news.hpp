// Views on their way from node to node: which one each peer has, who is told of this one, and where
// a node that is stuck asks for a newer. Parts of a job that went on apart have nothing to say to
// each other, so members ask those outside the view for theirs from time to time. Pure; owned by a
// JobCore.
//
//   a peer's view   | message of it             | tick
//   older           | ours, at most each 100 ms | -
//   the same        | -                         | -
//   newer           | a question for it         | one each second, while this node waits for a view
//   of another part | -                         | one each 2 s, with the digest of ours
// A view is told with those before it that prove it; where these are too many for one message, the
// receiver asks for more from the last one that it has the proof of.
#pragma once

#include <map>
#include <optional>

#include "runtime/job/detail/job_context.hpp"

namespace gpunode::job {

// With as much of the proofs as a message has room for.
ViewNotice notice_of(view::ViewChain chain);

class ViewNews {
 public:
  explicit ViewNews(const JobContext& job) : job_(job) {}

  void on_view();
  void on_ready(const NodeId& member) { peers_[member].ready = true; }  // it has the view's state
  void on_message(const NodeId& from, const view::ViewName& theirs);
  // The view of this node, and how it was decided; `always`: also if it was told a moment ago.
  void tell(const NodeId& to, bool always, Actions& out);
  // All that this node has the whole of, for who may have gone another way.
  void tell_newest(const NodeId& to, Actions& out);
  // The chain of this node that ends with the view told; nothing if that is not proven yet. Who
  // tells what brings nobody on is not heard for a moment: signatures cost time.
  std::optional<view::ViewChain> on_told(const NodeId& from, const view::ViewChain& told,
                                         bool astray, Actions& out);
  void on_ask(const NodeId& from, const ViewAsk& ask);
  void ask(const NodeId& from, Actions& out);
  // Frozen for a while: the next view may have been decided without this node hearing of it.
  void ask_tick(Actions& out);
  // Whether to tell people that a view was refused here, or this node by others: that may come
  // again and again.
  bool tells_refusal();
  // Whether those outside the view are to be asked for theirs now.
  bool is_gossip_due();

  // The members have installed the view, and have its state if it is from here. Who seems to be
  // gone may be back in a moment and wait for a vote, so nobody is left out.
  bool all_know() const;
  // Asks the members that are not known to have this view; for a node that leaves.
  void ask_members(Actions& out) const;

 private:
  struct Peer {
    view::ViewName view;    // newest that it is known to have installed
    view::ViewName proven;  // from which it can follow the views after it
    Time told{};            // when a VIEW was last sent to it
    int answers = 0;        // to its questions, one soon after another
    Time asked{};           // when a VIEW was last asked of it
    Time in_vain{};         // when it last told a view that was not proven
    bool ready = false;     // it has said that it holds the state of this view
  };
  bool knows(const NodeId& node) const;

  const JobContext& job_;
  view::ViewChain ahead_;  // views that are proven, on the way to one that is not yet
  std::map<NodeId, Peer> peers_;
  Time asked_{};
  Time gossiped_{};
  Time refusal_told_{};
};

}  // namespace gpunode::job
