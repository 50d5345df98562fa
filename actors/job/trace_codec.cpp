#include "actors/job/trace_codec.hpp"

#include "runtime/base/aligned_copy.hpp"
#include "runtime/base/wire_vector.hpp"
#include "schemas/trace_generated.h"

namespace gpunode::jobs {

namespace wire = gpunode::wire::trace;

namespace {

constexpr std::size_t kMaxBytes = kMaxTracedSpans * sizeof(wire::Span) + 4096;

}  // namespace

Bytes encode_spans(const std::vector<telemetry::Span>& spans) {
  flatbuffers::FlatBufferBuilder builder(1024);
  std::vector<wire::Span> list;
  list.reserve(spans.size());
  for (const telemetry::Span& span : spans)
    list.emplace_back(span.step, span.amount, span.begin.time_since_epoch().count(),
                      span.end.time_since_epoch().count(), span.count, span.peer,
                      static_cast<std::uint8_t>(span.kind));
  builder.Finish(wire::CreateSpans(builder, builder.CreateVectorOfStructs(list)),
                 wire::SpansIdentifier());
  return finished_bytes(builder);
}

Result<std::vector<telemetry::Span>> decode_spans(ByteView bytes) {
  Error corrupted{ErrorCode::corrupted, "not a list of spans"};
  if (bytes.size() > kMaxBytes || bytes.size() < 8) return corrupted;
  AlignedCopy copy(bytes);
  flatbuffers::Verifier verifier(copy.data(), copy.size(), 4, 4);
  if (!wire::VerifySpansBuffer(verifier)) return corrupted;
  const wire::Spans* list = wire::GetSpans(copy.data());
  std::vector<telemetry::Span> spans;
  if (!list->spans()) return spans;
  if (list->spans()->size() > kMaxTracedSpans || !lies_aligned(list->spans())) return corrupted;
  for (const wire::Span* one : *list->spans()) {
    const bool known = one->kind() < static_cast<std::uint8_t>(telemetry::SpanKind::kCount);
    if (!known || one->end_ns() < one->begin_ns()) continue;
    spans.push_back({static_cast<telemetry::SpanKind>(one->kind()), one->peer(), one->count(),
                     one->step(), one->amount(), Time(Duration(one->begin_ns())),
                     Time(Duration(one->end_ns()))});
  }
  return spans;
}

}  // namespace gpunode::jobs
