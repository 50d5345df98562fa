#include "runtime/job/state_transfer.hpp"

#include <deque>

#include <gtest/gtest.h>

#include "tests/support/ids.hpp"

namespace gpunode::job {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kPart = 16;

SharedBytes state_of(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return SharedBytes::from(std::move(bytes));
}

StateMeta meta_of(const SharedBytes& state) {
  return {9, state.size(), digest_of(state.view), {4, 4}, {{1, 1}, 5}};
}

StateFetch::Options fetch_options(const SharedBytes& state) {
  StateFetch::Options options;
  options.step = 9;
  options.state_digest = digest_of(state.view);
  options.sources = {node(1), node(2)};
  options.size_bytes = state.size();
  options.part_bytes = kPart;
  return options;
}

// Carries messages between one learner and its sources until nothing moves; true: complete.
struct Transfer {
  Transfer(const SharedBytes& whole, StateFetch::Options options)
      : state(whole), fetch(std::move(options)) {
    StateSource::Effects none;
    for (StateSource& source : sources) source.set_current(Time{}, meta_of(state), none);
  }
  void run(Time now) {
    StateFetch::Effects effects;
    fetch.on_tick(now, effects);
    pump(now, std::move(effects));
  }
  void pump(Time now, StateFetch::Effects effects) {
    take(std::move(effects));
    for (; !under_way.empty(); under_way.pop_front()) {
      const StateSource::Reply one = under_way.front();
      const int number = static_cast<int>(one.to.value[0]);
      if (number == silent) continue;
      StateSource& source = sources[static_cast<std::size_t>(number - 1)];
      StateSource::Effects answers;
      if (const auto* ask = std::get_if<StateAsk>(&one.body))
        source.on_ask(now, node(9), *ask, true, answers);
      if (const auto* read = std::get_if<StateRead>(&one.body))
        source.on_read(now, node(9), *read, kPart, answers);
      if (answers.read_token) source.on_snapshot(now, *answers.read_token, state, answers);
      for (StateSource::Reply& answer : answers.replies) {
        ++received[number];
        StateFetch::Effects next;
        if (const auto* meta = std::get_if<StateMeta>(&answer.body))
          fetch.on_meta(now, node(number), *meta, next);
        if (auto* part = std::get_if<StatePart>(&answer.body)) {
          if (spoil)
            part->payload = state_of(part->payload.size() + 1).part(1, part->payload.size());
          fetch.on_part(now, node(number), *part, next);
        }
        take(std::move(next));
      }
    }
  }
  void take(StateFetch::Effects effects) {
    if (effects.complete) complete = effects.complete;
    if (!effects.report.empty()) report = effects.report;
    for (StateSource::Reply& one : effects.sends) under_way.push_back(std::move(one));
  }
  std::deque<StateSource::Reply> under_way;
  SharedBytes state;
  StateFetch fetch;
  StateSource sources[2];
  int silent = 0;
  bool spoil = false;
  std::map<int, int> received;
  std::optional<SharedBytes> complete;
  std::string report;
};

TEST(StateTransfer, all_holders_share_in_feeding_the_learner) {
  const SharedBytes state = state_of(333);
  Transfer transfer(state, fetch_options(state));
  transfer.run(Time{} + 1s);
  ASSERT_TRUE(transfer.complete);
  EXPECT_EQ(digest_of(transfer.complete->view), digest_of(state.view));
  EXPECT_EQ(transfer.fetch.received_bytes(), 333u);
  EXPECT_GT(transfer.received[1], 1);
  EXPECT_GT(transfer.received[2], 1);
}

TEST(StateTransfer, a_silent_source_is_replaced) {
  const SharedBytes state = state_of(333);
  Transfer transfer(state, fetch_options(state));
  StateFetch::Effects effects;
  transfer.fetch.on_meta(Time{} + 1s, node(2), meta_of(state), effects);
  EXPECT_FALSE(effects.sends.empty()) << "parts were asked of node 2, which then dies";
  transfer.silent = 2;
  transfer.run(Time{} + 1s);
  EXPECT_FALSE(transfer.complete);
  transfer.run(Time{} + 12s);
  ASSERT_TRUE(transfer.complete);
}

// An uplink that many want is slow for each: what is asked for again only makes it slower.
TEST(StateTransfer, a_late_source_is_asked_less_often_and_what_comes_late_counts) {
  const SharedBytes state = state_of(333);
  StateFetch::Options options = fetch_options(state);
  options.sources = {node(1)};
  options.window = 100;
  StateFetch fetch(options);
  std::vector<StateRead> first;
  int asked = 0;
  const auto read_of = [&](const StateFetch::Effects& effects) {
    std::vector<StateRead> reads;
    for (const StateSource::Reply& one : effects.sends)
      if (const auto* read = std::get_if<StateRead>(&one.body)) reads.push_back(*read);
    return reads;
  };
  for (int second = 1; second <= 100; ++second) {
    const Time now = Time{} + std::chrono::seconds(second);
    StateFetch::Effects effects;
    fetch.on_tick(now, effects);
    if (!effects.sends.empty()) fetch.on_meta(now, node(1), meta_of(state), effects);
    const auto reads = read_of(effects);
    if (first.empty()) first = reads;
    asked += !reads.empty();
  }
  EXPECT_EQ(asked, 4) << "after 10, 20 and 40 s";
  StateFetch::Effects effects;
  fetch.on_tick(Time{} + 200s, effects);  // it is given up, until it answers an ask
  for (const StateRead& read : first)
    fetch.on_part(Time{} + 201s, node(1),
                  {read.digest, read.offset,
                   state.part(read.offset, std::min<std::uint64_t>(kPart, 333 - read.offset))},
                  effects);
  ASSERT_TRUE(effects.complete);
  EXPECT_EQ(digest_of(effects.complete->view), digest_of(state.view));
}

TEST(StateTransfer, a_dead_source_is_replaced_at_once_and_may_come_back) {
  const SharedBytes state = state_of(333);
  Transfer transfer(state, fetch_options(state));
  StateFetch::Effects effects;
  transfer.fetch.on_meta(Time{} + 1s, node(2), meta_of(state), effects);
  EXPECT_FALSE(effects.sends.empty());
  transfer.fetch.drop(node(2));
  transfer.silent = 2;
  transfer.run(Time{} + 1s);
  ASSERT_TRUE(transfer.complete);

  Transfer alone(state, fetch_options(state));
  alone.silent = 1;
  alone.fetch.drop(node(2));
  alone.run(Time{} + 1s);
  ASSERT_TRUE(alone.complete) << "it offered the state again";
}

TEST(StateTransfer, a_spoiled_state_is_not_installed) {
  const SharedBytes state = state_of(333);
  Transfer transfer(state, fetch_options(state));
  transfer.spoil = true;
  transfer.run(Time{} + 1s);
  EXPECT_FALSE(transfer.complete);
  EXPECT_NE(transfer.report.find("digest"), std::string::npos);
  transfer.spoil = false;
  transfer.run(Time{} + 4s);
  EXPECT_TRUE(transfer.complete);
}

TEST(StateTransfer, a_state_of_another_size_or_not_the_views_is_refused) {
  const SharedBytes state = state_of(333);
  StateFetch fetch(fetch_options(state));
  StateFetch::Effects effects;
  StateMeta meta = meta_of(state);
  for (const std::uint64_t wrong : {std::uint64_t{0}, std::uint64_t{4}, std::uint64_t{332},
                                    std::uint64_t{334}, ~std::uint64_t{0}}) {
    meta.size_bytes = wrong;
    fetch.on_meta(Time{}, node(1), meta, effects);
    EXPECT_FALSE(fetch.meta()) << wrong;
  }
  meta = meta_of(state);
  meta.digest = {1, 1};
  fetch.on_meta(Time{}, node(1), meta, effects);
  EXPECT_FALSE(fetch.meta());
  fetch.on_meta(Time{}, node(5), meta_of(state), effects);
  EXPECT_FALSE(fetch.meta()) << "node 5 is no source";
  EXPECT_TRUE(effects.sends.empty());
}

struct Source {
  void ask(int from, std::uint64_t step, bool urgent = true) {
    effects = {};
    source.on_ask(now, node(from), {step, {}}, urgent, effects);
  }
  void current(StateMeta meta) {
    effects = {};
    source.set_current(now, meta, effects);
  }
  void snapshot(const SharedBytes& state, std::uint64_t token) {
    effects = {};
    source.on_snapshot(now, token, state, effects);
  }
  void read(const SharedBytes& state, std::uint64_t offset, std::uint32_t length) {
    effects = {};
    source.on_read(now, node(1), {digest_of(state.view), offset, length}, kPart, effects);
  }
  std::uint64_t offered() const {
    return effects.replies.empty() ? 0 : std::get<StateMeta>(effects.replies[0].body).step;
  }
  Time now{};
  StateSource source;
  StateSource::Effects effects;
};

StateMeta meta_at(std::uint64_t step, const SharedBytes& state) {
  StateMeta meta = meta_of(state);
  meta.step = step;
  return meta;
}

TEST(StateTransfer, a_source_reads_its_state_once_and_only_for_its_step) {
  const SharedBytes state = state_of(50);
  Source one;
  one.current(meta_of(state));
  one.ask(1, 8);
  EXPECT_FALSE(one.effects.read_token);
  one.ask(1, 9);
  ASSERT_TRUE(one.effects.read_token);
  const std::uint64_t token = *one.effects.read_token;
  one.ask(2, 9);
  EXPECT_FALSE(one.effects.read_token);
  one.snapshot(state, token);
  EXPECT_EQ(one.effects.replies.size(), 2u);
  one.source.clear();
  one.read(state, 0, kPart);
  EXPECT_TRUE(one.effects.replies.empty());
  one.snapshot(state, token);
  EXPECT_TRUE(one.effects.replies.empty());
}

TEST(StateTransfer, the_state_after_a_step_to_come_is_copied_when_the_step_is_there) {
  const SharedBytes state = state_of(50);
  Source one;
  one.current(meta_at(9, state));
  one.ask(1, 11, false);
  EXPECT_FALSE(one.effects.read_token);
  one.source.clear_current();
  one.current(meta_at(10, state));
  EXPECT_FALSE(one.effects.read_token);
  one.source.clear_current();
  one.current(meta_at(11, state));
  ASSERT_TRUE(one.effects.read_token);
  one.source.clear_current();  // members go on meanwhile
  one.snapshot(state, *one.effects.read_token);
  EXPECT_EQ(one.offered(), 11u);
  one.read(state, 0, kPart);
  EXPECT_EQ(one.effects.replies.size(), 1u);
}

TEST(StateTransfer, a_copy_that_is_read_is_offered_to_the_next_learner_too_but_not_to_a_member) {
  const SharedBytes state = state_of(50);
  Source one;
  one.current(meta_at(9, state));
  one.ask(1, 9, false);
  one.snapshot(state, *one.effects.read_token);
  one.current(meta_at(10, state));
  one.ask(2, 10, false);
  EXPECT_EQ(one.offered(), 9u);
  one.ask(3, 10, true);
  EXPECT_TRUE(one.effects.read_token);
}

TEST(StateTransfer, a_copy_that_nobody_reads_is_freed) {
  const SharedBytes state = state_of(50);
  Source one;
  one.current(meta_at(9, state));
  one.ask(1, 9, false);
  one.snapshot(state, *one.effects.read_token);
  one.now += 14s;
  one.source.on_tick(one.now);
  EXPECT_TRUE(one.source.has_snapshot());
  one.now += 2s;
  one.source.on_tick(one.now);
  EXPECT_FALSE(one.source.has_snapshot());
}

TEST(StateTransfer, reads_beyond_the_state_and_too_long_ones_are_ignored) {
  const SharedBytes state = state_of(50);
  Source one;
  one.current(meta_of(state));
  one.ask(1, 9);
  one.snapshot(state, *one.effects.read_token);
  one.read(state, 50, kPart);
  EXPECT_TRUE(one.effects.replies.empty());
  one.read(state, ~std::uint64_t{0}, kPart);
  EXPECT_TRUE(one.effects.replies.empty());
  one.read(state, 0, kPart + 1);
  EXPECT_TRUE(one.effects.replies.empty());
  one.read(state, 48, kPart);
  ASSERT_EQ(one.effects.replies.size(), 1u);
  EXPECT_EQ(std::get<StatePart>(one.effects.replies[0].body).payload.size(), 2u);
}

}  // namespace
}  // namespace gpunode::job
