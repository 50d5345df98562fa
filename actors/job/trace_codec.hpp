// Spans of a job to wire bytes and back, over schemas/trace.fbs. What a node answers is verified
// before a field is read.
#pragma once

#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"
#include "runtime/telemetry/span_ring.hpp"

namespace gpunode::jobs {

constexpr std::size_t kMaxTracedSpans = 8192;

Bytes encode_spans(const std::vector<telemetry::Span>& spans);
// Spans that end before they begin, and kinds that this version does not know, are left out. Fails
// with corrupted: not such a list, more than kMaxTracedSpans.
Result<std::vector<telemetry::Span>> decode_spans(ByteView bytes);

}  // namespace gpunode::jobs
