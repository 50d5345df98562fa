#include "runtime/transport/detail/credit_window.hpp"

#include <gtest/gtest.h>

#include <deque>

#include "runtime/transport/detail/send_queue.hpp"

namespace gpunode::transport::detail {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
constexpr std::uint64_t kChunk = 256u << 10;

// Sends for a while over a link of that rate and round trip and returns the largest number of bytes
// that were under way in the last tenth, and what went through.
struct Outcome {
  std::uint64_t under_way = 0, delivered = 0;
};
Outcome flow(double bytes_per_second, Duration round_trip, Duration length) {
  CreditWindow sender, receiver;
  struct Flying {
    Time at;
    bool credit = false;
    std::uint64_t value = 0;
  };
  std::deque<Flying> wire, back;
  Time now{}, link_free{};
  Outcome outcome;
  std::uint64_t sent = 0, credited = 0;
  for (; now < Time{} + length; now += microseconds(50)) {
    while (!wire.empty() && wire.front().at <= now) {
      outcome.delivered += wire.front().value;
      if (receiver.on_taken(wire.front().value))
        back.push_back({now + round_trip / 2, true, receiver.tell()});
      wire.pop_front();
    }
    while (!back.empty() && back.front().at <= now) {
      EXPECT_TRUE(sender.on_credit(now, back.front().value));
      credited = back.front().value;
      back.pop_front();
    }
    while (sender.may_send()) {
      link_free =
          std::max(link_free, now) + std::chrono::duration_cast<Duration>(
                                         std::chrono::duration<double>(kChunk / bytes_per_second));
      sender.on_sent(now, kChunk);
      sent += kChunk;
      wire.push_back({link_free + round_trip / 2, false, kChunk});
    }
    if (now > Time{} + length * 9 / 10)
      outcome.under_way = std::max(outcome.under_way, sent - credited);
  }
  return outcome;
}

TEST(CreditWindow, keeps_a_short_link_within_the_cache) {
  Outcome outcome = flow(4e9, microseconds(60), milliseconds(500));
  EXPECT_LE(outcome.under_way, 3u << 20);
  EXPECT_GT(outcome.delivered, std::uint64_t(4e9 * 0.5 * 0.8));
}

TEST(CreditWindow, grows_until_a_long_link_is_full) {
  Outcome outcome = flow(125e6, milliseconds(100), std::chrono::seconds(10));
  EXPECT_GT(outcome.under_way, 10u << 20);  // 12.5 MB are the link's own
  EXPECT_LT(outcome.under_way, 40u << 20);
  EXPECT_GT(outcome.delivered, std::uint64_t(125e6 * 10 * 0.7));
}

TEST(CreditWindow, is_shut_by_a_peer_that_takes_nothing) {
  CreditWindow window;
  std::uint64_t sent = 0;
  while (window.may_send()) window.on_sent(Time{}, sent += kChunk);
  EXPECT_LE(sent, CreditWindow::kSmallest + kChunk);
}

TEST(CreditWindow, knows_a_peer_that_claims_more_than_was_sent) {
  CreditWindow window;
  window.on_sent(Time{}, 100);
  EXPECT_FALSE(window.on_credit(Time{}, 101));
  EXPECT_TRUE(window.on_credit(Time{}, 100));
}

Message message_of(Urgency urgency, std::uint64_t stream) {
  Message message;
  message.urgency = urgency;
  message.stream = stream;
  return message;
}

TEST(SendQueue, gives_the_urgent_first_and_each_kind_in_order) {
  SendQueue queue;
  queue.push(message_of(Urgency::low, 1));
  queue.push(message_of(Urgency::normal, 2));
  queue.push(message_of(Urgency::high, 3));
  queue.push(message_of(Urgency::high, 4));
  Message first = queue.take();
  EXPECT_EQ(first.stream, 3u);
  queue.put_back(std::move(first));
  for (std::uint64_t stream : {3, 4, 2, 1}) EXPECT_EQ(queue.take().stream, stream);
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace gpunode::transport::detail
