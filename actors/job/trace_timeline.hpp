// Spans of several members on one clock, as a trace that Chrome and Perfetto open. Pure.
//
// A member's clock is aligned by the midpoint of a question's round trip: it answers with its own
// time, which lies somewhere between asking and hearing, so the error is at most half the round
// trip. The shortest of several counts; offset and uncertainty stand in the trace's metadata.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "runtime/telemetry/span_ring.hpp"

namespace gpunode::jobs {

// How far a member's clock is ahead of ours.
class ClockOffset {
 public:
  // It answered `theirs` to what was asked at `asked` and heard at `heard` (both ours).
  void on_answer(Time asked, Time heard, Time theirs);
  Duration offset() const { return offset_; }
  Duration uncertainty() const { return uncertainty_; }  // half the shortest round trip
  std::uint32_t answers() const { return answers_; }

 private:
  Duration offset_{}, uncertainty_{};
  std::uint32_t answers_ = 0;
};

struct MemberTrace {
  std::string name, id;
  ClockOffset clock;
  std::vector<telemetry::Span> spans;  // on the member's own clock
  std::string error;                   // why there are none
};

// `members` by rank. The first span of all begins at 0. A member whose spans begin later than at
// `from_step`, as it keeps the newest alone, has a "first_step" in the metadata.
nlohmann::json trace_json(const std::string& job, const std::vector<MemberTrace>& members,
                          std::uint64_t from_step);

}  // namespace gpunode::jobs
