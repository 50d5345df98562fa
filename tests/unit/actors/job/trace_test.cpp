// Spans on the wire, clocks of several members on one line, and what a viewer gets.
#include <gtest/gtest.h>

#include "actors/job/trace_codec.hpp"
#include "actors/job/trace_timeline.hpp"

namespace gpunode::jobs {
namespace {

using namespace std::chrono_literals;
using telemetry::Span;
using telemetry::SpanKind;

Time at(Duration since) {
  return Time{} + since;
}

TEST(ClockOffset, is_taken_at_the_midpoint_of_the_shortest_round_trip) {
  ClockOffset clock;
  clock.on_answer(at(10ms), at(18ms), at(1017ms));
  EXPECT_EQ(clock.offset(), 1003ms);
  EXPECT_EQ(clock.uncertainty(), 4ms);
  clock.on_answer(at(20ms), at(22ms), at(1022ms));
  EXPECT_EQ(clock.offset(), 1001ms);
  EXPECT_EQ(clock.uncertainty(), 1ms);
  clock.on_answer(at(30ms), at(40ms), at(2000ms));
  EXPECT_EQ(clock.offset(), 1001ms) << "a longer one says less";
  EXPECT_EQ(clock.answers(), 3u);
}

TEST(Trace, puts_spans_of_shifted_clocks_on_one_line) {
  MemberTrace near{
      "near", "11", {}, {{SpanKind::compute, telemetry::kNobody, 1, 7, 4, at(5ms), at(9ms)}}, ""};
  near.clock.on_answer(at(0ms), at(0ms), at(0ms));
  MemberTrace far{"far", "22", {}, {{SpanKind::send, 0, 3, 7, 4096, at(1006ms), at(1008ms)}}, ""};
  far.clock.on_answer(at(0ms), at(2ms), at(1001ms));
  const auto trace = trace_json("job", {near, far}, 7);
  std::vector<nlohmann::json> spans;
  for (const auto& event : trace["traceEvents"])
    if (event["ph"] == "X") spans.push_back(event);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0]["ts"], 0.0);
  EXPECT_EQ(spans[0]["dur"], 4000.0);
  EXPECT_EQ(spans[0]["args"]["slices"], 4);
  EXPECT_EQ(spans[1]["ts"], 1000.0);
  EXPECT_EQ(spans[1]["pid"], 1);
  EXPECT_EQ(spans[1]["args"]["peer"], "near");
  EXPECT_EQ(trace["metadata"]["clocks"][1]["offset_us"], 1000000.0);
  EXPECT_EQ(trace["metadata"]["clocks"][1]["uncertainty_us"], 1000.0);
}

TEST(Trace, says_from_which_step_on_a_member_that_kept_less_tells) {
  const auto member = [](std::uint64_t first) {
    MemberTrace trace{"one", "11", {}, {}, ""};
    for (std::uint64_t step : {first + 1, first, first + 2})
      trace.spans.push_back({SpanKind::compute, telemetry::kNobody, 1, step, 0, at(1ms), at(2ms)});
    return trace;
  };
  const auto trace = trace_json("job", {member(9), member(4), {"mute", "33", {}, {}, "away"}}, 4);
  const auto& clocks = trace["metadata"]["clocks"];
  EXPECT_EQ(clocks[0].value("first_step", 0), 9);
  EXPECT_FALSE(clocks[1].contains("first_step"));
  EXPECT_FALSE(clocks[2].contains("first_step"));
}

TEST(TraceCodec, carries_spans_and_leaves_out_nonsense) {
  const Span good{SpanKind::sum, 2, 5, 9, 77, at(1ms), at(2ms)};
  Span backward = good;
  std::swap(backward.begin, backward.end);
  Span unknown = good;
  unknown.kind = SpanKind::kCount;
  auto back = decode_spans(encode_spans({good, backward, unknown, good}));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, (std::vector<Span>{good, good}));
  EXPECT_TRUE(decode_spans(encode_spans({})));
}

TEST(TraceCodec, refuses_what_is_no_list_of_spans) {
  EXPECT_FALSE(decode_spans({}));
  EXPECT_FALSE(decode_spans(as_bytes("not a flat buffer at all")));
  Bytes bytes = encode_spans({Span{}, Span{}});
  for (std::size_t size = 0; size < bytes.size(); ++size)
    (void)decode_spans(ByteView(bytes).first(size));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    Bytes bent = bytes;
    bent[i] ^= std::byte{0x41};
    (void)decode_spans(bent);
  }
  EXPECT_FALSE(decode_spans(encode_spans(std::vector<Span>(kMaxTracedSpans + 1))));
}

}  // namespace
}  // namespace gpunode::jobs
