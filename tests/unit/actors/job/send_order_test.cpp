#include "actors/job/send_order.hpp"

#include <gtest/gtest.h>

namespace gpunode::jobs {
namespace {

job::JobBody of_step(std::uint64_t step, collective::ExchangeMessage message) {
  job::StepMessage body;
  body.step = step;
  body.message = std::move(message);
  return body;
}

job::JobBody partial(std::uint64_t step, std::uint32_t chunk) {
  return of_step(step, collective::PartialChunk{.chunk = chunk});
}
job::JobBody result(std::uint64_t step, std::uint32_t chunk) {
  return of_step(step, collective::ResultChunk{.chunk = chunk});
}
job::JobBody done(std::uint64_t step) {
  return of_step(step, collective::Done{});
}

// Who has heard all others begins the next step while its own DONE may still wait for the socket:
// to overtake it would hold up the peer by a whole step's bytes.
TEST(SendOrder, no_step_overtakes_the_one_before) {
  for (const bool speculates : {false, true})
    for (const std::uint64_t step : {1u, 2u, 1000u}) {
      const std::uint64_t last = order_of(done(step), speculates);
      EXPECT_LT(order_of(partial(step, 0xffffffff), speculates), last);
      EXPECT_LT(order_of(result(step, 0xffffffff), speculates), last);
      EXPECT_LT(last, order_of(partial(step + 1, 0), speculates));
      EXPECT_LT(last, order_of(result(step + 1, 0), speculates));
    }
}

TEST(SendOrder, partial_sums_go_before_results_as_others_wait_for_them_to_send_on) {
  EXPECT_LT(order_of(partial(1, 2), false), order_of(partial(1, 3), false));
  EXPECT_LT(order_of(partial(1, 0xffffffff), false), order_of(result(1, 0), false));
  EXPECT_LT(order_of(result(1, 2), false), order_of(result(1, 3), false));
}

TEST(SendOrder, first_chunks_go_first_where_the_next_forward_begins_on_parts) {
  EXPECT_LT(order_of(result(1, 2), true), order_of(partial(1, 2), true));
  EXPECT_LT(order_of(partial(1, 2), true), order_of(result(1, 3), true));
}

TEST(SendOrder, what_is_no_gradient_is_not_overtaken) {
  EXPECT_EQ(order_of(of_step(7, collective::Need{}), true), 0u);
  EXPECT_EQ(order_of(job::StateRead{}, false), 0u);
  EXPECT_EQ(urgency_of(of_step(7, collective::Need{})), transport::Urgency::high);
  EXPECT_EQ(urgency_of(partial(7, 1)), transport::Urgency::normal);
  EXPECT_EQ(urgency_of(job::StatePart{}), transport::Urgency::low);
}

}  // namespace
}  // namespace gpunode::jobs
