// Many asks of one service, and how long each took: by so many askers in turn, which finds what the service
// can do, or at times that were drawn before (an open loop). There a time to answer counts from the moment
// at which the ask was due, so that one that had to wait for an asker hides nothing. Each asker is a
// thread of its own; run_load() returns when all are through.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace gpunode::bench {

struct AskedOnce {
  double seconds = 0;        // to the answer, from its begin (run_load: from when it was due)
  double first_seconds = 0;  // to the text's first piece, likewise; 0: it told of none
  double late_seconds = 0;   // it was asked so much after it was due
  std::uint64_t prompt_tokens = 0, tokens = 0;
};
// One ask, on any thread: how long it took. `number` tells asks apart.
using Ask = std::function<Result<AskedOnce>(std::uint64_t number)>;

struct LoadPlan {
  // When each is due, in seconds after the begin; empty: an asker asks again as soon as it is answered,
  // for `seconds`.
  std::vector<double> due = {};
  double seconds = 0;
  int askers = 1;  // at most so many at once
  std::uint64_t first_number = 0;
  // Each second, on the caller's thread: how many have been answered or have failed. May be empty.
  std::function<void(std::uint64_t done)> on_second = {};
};
struct LoadResult {
  std::vector<AskedOnce> answered = {};
  std::map<std::string, std::uint64_t> failed = {};  // by the error's code; they count nowhere else
  double seconds = 0;                                // from the begin to the last answer
  std::uint64_t asked() const;
  double answered_per_second() const;
};

// Times at which asks of a Poisson process of that rate (1/s, above 0) are due within so many seconds.
std::vector<double> arrivals(double rate, double seconds, std::uint64_t seed);

LoadResult run_load(const LoadPlan& plan, const Ask& ask);

// The value that so many percent (0 to 100) of all do not pass; 0 of none. Sorts a copy.
double percentile(std::vector<double> values, double percent);

}  // namespace gpunode::bench
