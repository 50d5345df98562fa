#include "actors/job/trace_timeline.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace gpunode::jobs {

namespace {

using nlohmann::json;
using telemetry::Span;
using telemetry::SpanKind;

// Rows of a member in the viewer.
enum Row : int { kDevice, kWire, kStep, kJob };

// Where a span is shown, and what its amount is called.
struct Look {
  Row row = kJob;
  const char* amount = "amount";
};

Look look_of(SpanKind kind) {
  static const std::map<SpanKind, Look> looks = {{SpanKind::compute, {kDevice, "slices"}},
                                                 {SpanKind::apply, {kDevice}},
                                                 {SpanKind::speculative, {kDevice}},
                                                 {SpanKind::send, {kWire, "bytes"}},
                                                 {SpanKind::sum, {kWire, "bytes"}},
                                                 {SpanKind::receive, {kWire, "bytes"}},
                                                 {SpanKind::gather, {kStep}},
                                                 {SpanKind::confirm, {kStep}},
                                                 {SpanKind::view_change, {kJob, "view"}}};
  const auto found = looks.find(kind);
  return found == looks.end() ? Look{} : found->second;
}

double microseconds(Duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

json named(const char* what, std::size_t process, int row, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", row}, {"args", {{"name", name}}}};
}

json event_of(const Span& span, std::size_t process, Time begin, Time zero,
              const std::vector<MemberTrace>& members) {
  const Look look = look_of(span.kind);
  json arguments = {{"step", span.step}, {"count", span.count}};
  if (span.amount > 0) arguments[look.amount] = span.amount;
  if (span.peer < members.size()) arguments["peer"] = members[span.peer].name;
  return {{"ph", "X"},
          {"name", telemetry::to_string(span.kind)},
          {"pid", process},
          {"tid", static_cast<int>(look.row)},
          {"ts", microseconds(begin - zero)},
          {"dur", microseconds(span.end - span.begin)},
          {"args", arguments}};
}

}  // namespace

void ClockOffset::on_answer(Time asked, Time heard, Time theirs) {
  if (heard < asked) return;
  const Duration half = (heard - asked) / 2;
  if (answers_++ > 0 && half >= uncertainty_) return;
  uncertainty_ = half;
  offset_ = theirs - (asked + half);
}

json trace_json(const std::string& job, const std::vector<MemberTrace>& members,
                std::uint64_t from_step) {
  Time zero{Duration(std::numeric_limits<std::int64_t>::max())};
  for (const MemberTrace& member : members)
    for (const Span& span : member.spans) zero = std::min(zero, span.begin - member.clock.offset());
  json events = json::array();
  json clocks = json::array();
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const MemberTrace& member = members[rank];
    events.push_back(named("process_name", rank, 0, member.name));
    for (const auto& [row, name] : {std::pair(kDevice, "device"), std::pair(kWire, "exchange"),
                                    std::pair(kStep, "step"), std::pair(kJob, "job")})
      events.push_back(named("thread_name", rank, row, name));
    for (const Span& span : member.spans)
      events.push_back(event_of(span, rank, span.begin - member.clock.offset(), zero, members));
    json clock = {{"member", member.name},
                  {"id", member.id},
                  {"answers", member.clock.answers()},
                  {"offset_us", microseconds(member.clock.offset())},
                  {"uncertainty_us", microseconds(member.clock.uncertainty())}};
    if (!member.error.empty()) clock["error"] = member.error;
    const auto first = std::ranges::min_element(member.spans, {}, &Span::step);
    if (first != member.spans.end() && first->step > from_step) clock["first_step"] = first->step;
    clocks.push_back(clock);
  }
  return {{"traceEvents", events},
          {"displayTimeUnit", "ms"},
          {"metadata", {{"job", job}, {"clocks", clocks}}}};
}

}  // namespace gpunode::jobs
