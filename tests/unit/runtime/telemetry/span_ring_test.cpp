#include "runtime/telemetry/span_ring.hpp"

#include <gtest/gtest.h>

namespace gpunode::telemetry {
namespace {

using namespace std::chrono_literals;

Span span_at(SpanKind kind, std::uint64_t step, Duration begin, Duration took) {
  return {kind, 0xffff, 1, step, 100, Time{} + begin, Time{} + begin + took};
}

TEST(SpanRing, keeps_the_newest) {
  SpanRing ring(3);
  for (std::uint64_t step = 1; step <= 5; ++step)
    ring.add(span_at(SpanKind::apply, step, step * 10ms, 1ms));
  const auto spans = ring.from_step(0, 10);
  ASSERT_EQ(spans.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(spans[i].step, 3 + i);
  EXPECT_EQ(ring.from_step(5, 10).size(), 1u);
  EXPECT_EQ(ring.from_step(0, 2).front().step, 4u);
}

TEST(SpanRing, merges_neighbours_of_one_kind_even_across_its_end) {
  SpanRing ring(2);
  ring.add(span_at(SpanKind::apply, 1, 1ms, 1ms));
  ring.add(span_at(SpanKind::apply, 2, 10ms, 1ms));
  ring.add(span_at(SpanKind::send, 3, 20ms, 10us));
  ring.add(span_at(SpanKind::send, 3, 20ms + 50us, 10us));
  ring.add(span_at(SpanKind::send, 3, 25ms, 10us));
  const auto spans = ring.from_step(0, 10);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].count, 2u);
  EXPECT_EQ(spans[0].amount, 200u);
  EXPECT_EQ(spans[0].end, Time{} + 20ms + 60us);
  EXPECT_EQ(spans[1].count, 1u) << "a pause begins a new span";
}

TEST(SpanRing, does_not_merge_steps_peers_or_kinds) {
  SpanRing ring(8);
  Span span = span_at(SpanKind::send, 1, 1ms, 10us);
  ring.add(span);
  span.step = 2;
  ring.add(span);
  span.peer = 1;
  ring.add(span);
  span.kind = SpanKind::sum;
  ring.add(span);
  EXPECT_EQ(ring.from_step(0, 10).size(), 4u);
}

TEST(SpanRing, every_kind_has_a_name) {
  for (std::size_t kind = 0; kind < static_cast<std::size_t>(SpanKind::kCount); ++kind)
    EXPECT_NE(to_string(static_cast<SpanKind>(kind)), "unknown");
}

}  // namespace
}  // namespace gpunode::telemetry
