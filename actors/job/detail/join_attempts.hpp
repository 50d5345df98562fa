// When this node looks again at a job of others that it could not join: one look at a time, as a
// look reads all of the job's data, and a pause that doubles with each refusal, as what made this
// node unfit seldom changes. Pure; owned by the job board.
#pragma once

#include <algorithm>
#include <map>

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"

namespace gpunode::jobs::board {

class JoinAttempts {
 public:
  static constexpr Duration kFirstPause = std::chrono::seconds(15);
  static constexpr Duration kLongestPause = std::chrono::minutes(10);

  // True: the job is being looked at from now on, until one of the other functions says how it
  // went. False: it is already, or not yet again.
  bool begin(const JobId& id, Time now) {
    Attempt& attempt = by_job_[id];
    if (attempt.under_way || now < attempt.not_before) return false;
    attempt.under_way = true;
    return true;
  }
  // Whether the last look found that this node cannot take part, and the pause is not over.
  bool unfit(const JobId& id, Time now) const {
    const auto found = by_job_.find(id);
    if (found == by_job_.end()) return false;
    const Attempt& attempt = found->second;
    return !attempt.under_way && attempt.pause > Duration::zero() && now < attempt.not_before;
  }
  // Nothing was learnt of it; the pause stays.
  void missed(const JobId& id, Time now) {
    Attempt& attempt = by_job_[id];
    attempt.under_way = false;
    attempt.not_before = now + kFirstPause;
  }
  // This node cannot take part.
  void refused(const JobId& id, Time now) {
    Attempt& attempt = by_job_[id];
    attempt.pause = std::clamp(attempt.pause * 2, kFirstPause, kLongestPause);
    attempt.under_way = false;
    attempt.not_before = now + attempt.pause;
  }
  // It takes part.
  void joined(const JobId& id, Time now) {
    missed(id, now);
    by_job_[id].pause = {};
  }

 private:
  struct Attempt {
    bool under_way = false;
    Time not_before{};
    Duration pause{};
  };
  std::map<JobId, Attempt> by_job_;
};

}  // namespace gpunode::jobs::board
