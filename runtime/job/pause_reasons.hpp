// Why a job is paused, as people are told: each reason when it begins to hold, and the last one
// told is the one that holds; but two that take turns are not told at each turn. Pure; owned by a
// JobCore.
#pragma once

#include <map>
#include <string>

#include "runtime/base/clock.hpp"

namespace gpunode::job {

class PauseReasons {
 public:
  // Whether it is to be told now; it counts as told then.
  bool tell(Time now, const std::string& reason);
  bool any() const { return !told_.empty(); }  // since the view began, or its last commit
  void clear() { told_.clear(); }

 private:
  std::map<std::string, Time> told_;  // and when
  std::string last_;
};

}  // namespace gpunode::job
