// The way of results to a learner: what members keep, and what the learner asks of whom.
#include <deque>

#include <gtest/gtest.h>

#include "runtime/collective/result_digest.hpp"
#include "runtime/job/result_fetch.hpp"
#include "runtime/job/result_log.hpp"
#include "tests/support/ids.hpp"

namespace gpunode::job {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kElements = 40;
constexpr std::uint32_t kPart = 64;  // bytes; three parts a result

ResultLog::Entry entry_of(std::uint64_t step) {
  auto values = std::make_shared<std::vector<float>>(kElements);
  for (std::size_t i = 0; i < kElements; ++i) (*values)[i] = static_cast<float>(100 * step + i);
  const collective::DataFingerprint data_fingerprint{{step, 1}, 4};
  const auto layout = collective::ChunkLayout::of(kElements);
  return {step, values, collective::result_digest_of(layout, *values, data_fingerprint),
          data_fingerprint};
}

// Two members that keep the same results, and a learner that follows them.
struct Following {
  explicit Following(std::uint64_t first) : fetch(options_of(first)) {}
  static ResultFetch::Options options_of(std::uint64_t first) {
    ResultFetch::Options options;
    options.first_step = first;
    options.last_step = 100;
    options.element_count = kElements;
    options.part_bytes = kPart;
    return options;
  }
  void commit(std::uint64_t step) {
    committed = step;
    for (ResultLog& log : logs) {
      std::vector<StateSource::Reply> replies;
      log.add(entry_of(step), replies);
      for (StateSource::Reply& one : replies)
        arrive(static_cast<int>(&log - logs) + 1, std::move(one));
    }
  }
  void trim(std::uint64_t bytes) {
    for (ResultLog& log : logs) log.trim(bytes);
  }
  void tell() {
    for (int number : {1, 2})
      fetch.on_source(now, node(number), committed, logs[number - 1].first_step(committed));
  }
  void arrive(int from, StateSource::Reply reply) {
    auto part = std::get<ResultPart>(std::move(reply.body));
    if (spoil) part.payload = SharedBytes::from(Bytes(part.payload.size()));
    ResultFetch::Effects effects;
    fetch.on_part(now, node(from), part, effects);
    ++received[from];
  }
  void tick() {
    ResultFetch::Effects effects;
    fetch.on_tick(now, effects);
    for (const StateSource::Reply& one : effects.sends) {
      const int number = static_cast<int>(one.to.value[0]);
      if (number == silent) continue;
      std::vector<StateSource::Reply> replies;
      logs[number - 1].on_read(node(9), std::get<ResultRead>(one.body), committed, kPart, replies);
      for (StateSource::Reply& reply : replies) arrive(number, std::move(reply));
    }
  }
  std::vector<std::uint64_t> take_all() {
    std::vector<std::uint64_t> steps;
    ResultFetch::Effects effects;
    while (auto one = fetch.take(now, effects)) {
      EXPECT_EQ(*one->result, *entry_of(one->step).result);
      EXPECT_EQ(one->data_fingerprint, entry_of(one->step).data_fingerprint);
      steps.push_back(one->step);
    }
    report = effects.report;
    return steps;
  }
  Time now = Time{} + 1s;
  ResultLog logs[2];
  ResultFetch fetch;
  std::uint64_t committed = 0;
  int silent = 0;
  bool spoil = false;
  std::map<int, int> received;
  std::string report;
};

TEST(ResultTransfer, a_learner_follows_from_its_step_to_the_newest_in_order) {
  Following one(4);
  for (std::uint64_t step = 1; step <= 6; ++step) one.commit(step);
  one.tell();
  one.tick();
  EXPECT_EQ(one.take_all(), (std::vector<std::uint64_t>{4, 5, 6}));
  EXPECT_GT(one.received[1], 2);
  EXPECT_GT(one.received[2], 2) << "both members share in feeding it";
  EXPECT_EQ(one.fetch.received_bytes(), 3 * kElements * sizeof(float));
}

TEST(ResultTransfer, the_next_result_leaves_as_soon_as_it_is_committed) {
  Following one(7);
  for (std::uint64_t step = 1; step <= 6; ++step) one.commit(step);
  one.tell();
  one.tick();
  EXPECT_TRUE(one.take_all().empty());
  one.commit(7);  // no message of the learner in between
  EXPECT_EQ(one.take_all(), (std::vector<std::uint64_t>{7}));
}

TEST(ResultTransfer, a_spoiled_result_is_not_applied_but_fetched_again) {
  Following one(1);
  one.commit(1);
  one.tell();
  one.spoil = true;
  one.tick();
  EXPECT_TRUE(one.take_all().empty());
  EXPECT_NE(one.report.find("digest"), std::string::npos);
  one.spoil = false;
  one.now += 11s;
  one.tick();
  EXPECT_EQ(one.take_all(), (std::vector<std::uint64_t>{1}));
}

TEST(ResultTransfer, what_a_silent_member_owes_is_asked_of_another) {
  Following one(1);
  one.commit(1);
  one.tell();
  one.silent = 1;
  one.tick();
  EXPECT_TRUE(one.take_all().empty());
  ResultFetch::Effects none;
  one.fetch.lose(node(1));
  one.fetch.set_sources({node(2)});
  one.tick();
  EXPECT_EQ(one.take_all(), (std::vector<std::uint64_t>{1}));
}

TEST(ResultTransfer, what_a_dead_member_owes_is_asked_of_another_at_once) {
  Following one(1);
  one.commit(1);
  one.tell();
  one.silent = 1;
  one.tick();
  EXPECT_TRUE(one.take_all().empty());
  one.fetch.drop(node(1));
  one.tick();
  EXPECT_EQ(one.take_all(), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(one.received[1], 0);
}

TEST(ResultTransfer, who_needs_results_that_are_gone_is_told_so) {
  Following one(2);
  for (std::uint64_t step = 1; step <= 6; ++step) one.commit(step);
  one.trim(3 * kElements * sizeof(float));
  one.tell();
  EXPECT_TRUE(one.fetch.fell_behind());
  Following other(4);
  for (std::uint64_t step = 1; step <= 6; ++step) other.commit(step);
  other.trim(3 * kElements * sizeof(float));
  other.tell();
  EXPECT_FALSE(other.fetch.fell_behind());
  other.trim(0);
  EXPECT_EQ(other.logs[0].first_step(6), 6u) << "the newest always stays";
}

TEST(ResultTransfer, reads_that_make_no_sense_are_ignored) {
  Following one(1);
  one.commit(1);
  std::vector<StateSource::Reply> replies;
  one.logs[0].on_read(node(9), {1, kElements * sizeof(float), kPart}, 1, kPart, replies);
  one.logs[0].on_read(node(9), {1, 0, kPart + 1}, 1, kPart, replies);
  one.logs[0].on_read(node(9), {1, 0, 0}, 1, kPart, replies);
  one.logs[0].on_read(node(9), {500, 0, kPart}, 1, kPart, replies);
  one.logs[0].on_read(node(9), {2, ~std::uint64_t{0}, kPart}, 1, kPart, replies);
  one.logs[0].add(entry_of(2), replies);
  EXPECT_TRUE(replies.empty());
}

}  // namespace
}  // namespace gpunode::job
