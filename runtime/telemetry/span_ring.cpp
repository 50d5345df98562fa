#include "runtime/telemetry/span_ring.hpp"

#include <algorithm>
#include <array>

#include "runtime/base/check.hpp"

namespace gpunode::telemetry {

std::string_view to_string(SpanKind kind) {
  static constexpr std::array<std::string_view, static_cast<std::size_t>(SpanKind::kCount)> kNames{
      "compute", "send", "sum",         "receive", "gather",     "confirm",
      "apply",   "sync", "view change", "stall",   "speculative"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "unknown";
}

SpanRing::SpanRing(std::size_t capacity) : capacity_(capacity) {
  GPUNODE_CHECK(capacity > 0, "a ring without a place");
  spans_.reserve(capacity);
}

void SpanRing::add(const Span& span) {
  std::lock_guard lock(mutex_);
  for (std::size_t back = 1; back <= std::min(kMergeAmong, spans_.size()); ++back) {
    Span& last = spans_[(next_ + spans_.size() - back) % spans_.size()];
    const bool follows = last.kind == span.kind && last.step == span.step &&
                         last.peer == span.peer && span.begin >= last.begin &&
                         span.begin - last.end <= kMergeWithin;
    if (!follows) continue;
    last.end = std::max(last.end, span.end);
    last.amount += span.amount;
    last.count += span.count;
    return;
  }
  if (spans_.size() < capacity_) {
    spans_.push_back(span);
    return;
  }
  spans_[next_] = span;
  next_ = (next_ + 1) % capacity_;
}

std::vector<Span> SpanRing::from_step(std::uint64_t step, std::size_t most) const {
  std::vector<Span> out;
  {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      const Span& span = spans_[(next_ + i) % spans_.size()];
      if (span.step >= step) out.push_back(span);
    }
  }
  if (out.size() > most) out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(most));
  return out;
}

}  // namespace gpunode::telemetry
