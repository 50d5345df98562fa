// Leaving politely: the step under way is finished, then a view is agreed without this node, which
// still votes on it and stays until the others know it; so nobody waits for a failure detector. The
// last holder of a state does not leave it behind: it waits while somebody is on the way in, else,
// or when its time runs out, it makes the state a durable checkpoint first. Pure; owned by a
// JobCore.
//
//   state   | asked  | view without it | last holder     | saved, copied | others know | time over
//   stays   | leaves | -               | -               | -             | -           | -
//   leaves  | sooner | outside         | saves, when due | -             | -           | left
//   saves   | leaves | outside         | -               | left          | -           | left
//   outside | leaves | -               | -               | -             | left        | left
//   left    | leaves | -               | -               | -             | -           | -
#pragma once

#include <optional>
#include <string>

#include "runtime/job/detail/job_context.hpp"

namespace gpunode::job {

class Leaver {
 public:
  explicit Leaver(JobContext& job) : job_(job) {}

  // What the other parts of the core know.
  struct Facts {
    bool stuck = false;           // no quorum answers
    bool somebody_comes = false;  // who could take the state over
    Duration step_time{};
    bool durable = false;      // the newest checkpoint here is
    std::size_t copies = 0;    // of it on other nodes
    bool copies_read = false;  // a witness gets on with fetching it
    bool others_know = false;  // the members have the view without this node, and its state
  };
  // What it asks of the core.
  enum class Ask : std::uint8_t {
    nothing,
    end_view,        // a view without this node
    want_change,     // this voter has to start it by itself
    tell_it_leaves,  // to everybody
    ask_members      // whether they have the view
  };

  // False: it leaves already, and earlier.
  bool begin(Duration timeout);
  void take_back();  // it is to take part again
  Ask on_tick(const Facts& facts, Actions& out);
  void on_view(const view::View& before);
  // Between two steps: whether a view without this node is due; asked for then.
  bool try_now();

  bool leaves() const { return state_ != State::stays; }

 private:
  enum class State : std::uint8_t { stays, leaves, saves, outside, left };
  Ask leave_as_member(const Facts& facts, Actions& out);
  Ask leave_from_outside(const Facts& facts, Actions& out);
  void save(Actions& out);
  bool is_saved(const Facts& facts);
  bool is_due() const;
  void give_back_time();
  Ask wait(Ask ask, Duration every);
  void tell_left(const std::string& why, Actions& out);

  JobContext& job_;
  State state_ = State::stays;
  Time by_{};                  // when it leaves at the latest
  Time began_{};               // when it was asked to leave
  Time save_from_{};           // when the last holder waits for others no longer
  std::optional<Time> tried_;  // to get a view without this node
  Time asked_{};
  Time ticked_{};
  bool owes_view_ = false;               // it voted on the view, which the others may not know yet
  bool told_ = false;                    // that it is the last holder
  std::optional<std::uint64_t> saving_;  // step of the checkpoint that is waited for
  std::optional<Time> saved_at_;         // when it was on this node's disk
};

}  // namespace gpunode::job
