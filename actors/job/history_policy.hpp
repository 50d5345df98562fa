// When a job's history is written to this node's disk, and whom this node asks for what it lacks of
// it. A write holds nothing up and may fail: it is tried again. Pure; owned by the job actor.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "actors/messages.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"

namespace gpunode::jobs {

class HistoryPolicy {
 public:
  static constexpr Duration kLeastBetween =
      std::chrono::seconds(1);  // two writes, but for checkpoints
  static constexpr Duration kAfterFailure = std::chrono::seconds(10);
  static constexpr Duration kAskedAgain = std::chrono::seconds(5);
  static constexpr int kRounds = 3;  // of questions to all members

  void on_change() { changed_ = true; }
  // A job that goes on from a checkpoint is to know how it came there: this one waits for a history
  // that goes as far.
  void on_checkpoint(WriteCheckpoint order);
  // Those that wait no longer, as it is written, or the disk does not take it, or `ends`.
  std::vector<WriteCheckpoint> take_checkpoints(bool ends = false);
  // True: it is to be written now. `ends`: there will be no other occasion, so it is in any case.
  bool begins_to_write(Time now, bool ends = false);
  // True: it failed, for the first time since it last succeeded.
  bool on_written(Time now, bool success);

  // Whom to ask for what came before step `first`, if anybody; he answers by on_answer.
  std::optional<NodeId> asks(Time now, std::uint64_t first, const std::vector<NodeId>& others);
  void on_answer() { waits_for_answer_ = false; }

 private:
  std::vector<WriteCheckpoint> next_, in_write_;  // that wait for the next write, for this one
  bool changed_ = false, at_once_ = false, writing_ = false, failed_ = false;
  Time not_before_{};
  std::uint64_t first_ = 1;
  std::set<NodeId> asked_;
  int rounds_ = 0;
  bool waits_for_answer_ = false;
  Time next_question_{};
};

}  // namespace gpunode::jobs
