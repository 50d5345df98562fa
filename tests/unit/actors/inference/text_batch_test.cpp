#include "actors/inference/text_batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "runtime/base/rng.hpp"

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<TextBatch::Id>;

class Batch : public ::testing::Test {
 protected:
  static TextBatch::Limits limits() {
    return {.texts = 3,
            .rows = 12,
            .context = 20,
            .page = 4,
            .pages = 15,
            .prompt_rows = 5,
            .most_waiting = 4,
            .most_waiting_tokens = 1000};
  }
  static std::vector<model::Token> tokens(std::size_t count, model::Token first = 0) {
    std::vector<model::Token> all(count);
    std::iota(all.begin(), all.end(), first);
    return all;
  }
  Result<TextBatch::Id> add(std::size_t prompt, const std::string& client = "a",
                            std::uint32_t priority = 0) {
    // Texts that begin alike would not be read twice.
    return batch_.add(now_, {.prompt = tokens(prompt, 100 * ++added_),
                             .deadline = deadline_,
                             .priority = priority,
                             .client = client});
  }
  // One pass: who is read and how much; texts that are read go on.
  std::vector<std::pair<TextBatch::Id, std::size_t>> pass() {
    std::vector<std::pair<TextBatch::Id, std::size_t>> told;
    Ids go_on;
    for (const TextBatch::Part& part : batch_.next(now_)) {
      told.emplace_back(part.id, part.read.tokens.size());
      if (part.read.scored > 0) go_on.push_back(part.id);
    }
    batch_.on_read();
    for (const TextBatch::Id id : go_on) batch_.on_token(id, 7);
    return told;
  }

  Time now_ = Time{} + 1h, deadline_ = Time::max();
  model::Token added_ = 0;
  TextBatch batch_{limits()};
};

using Read = std::pair<TextBatch::Id, std::size_t>;

TEST_F(Batch, reads_a_prompt_and_then_token_by_token) {
  const auto id = *add(6);
  EXPECT_THAT(pass(), ElementsAre(Read{id, 6}));
  EXPECT_THAT(pass(), ElementsAre(Read{id, 1}));
  EXPECT_THAT(pass(), ElementsAre(Read{id, 1}));
  batch_.end(now_, id);
  EXPECT_TRUE(pass().empty());
}

TEST_F(Batch, reads_a_long_prompt_in_pieces_beside_those_that_go_on) {
  const auto first = *add(2);
  pass();
  const auto second = *add(13);
  EXPECT_THAT(pass(), ElementsAre(Read{first, 1}, Read{second, 5}));
  EXPECT_THAT(pass(), ElementsAre(Read{first, 1}, Read{second, 5}));
  EXPECT_THAT(pass(), ElementsAre(Read{first, 1}, Read{second, 3}));
  EXPECT_THAT(pass(), ElementsAre(Read{first, 1}, Read{second, 1}));
}

TEST_F(Batch, lets_those_of_higher_priority_go_first_then_whoever_has_had_least) {
  for (int count = 0; count < 3; ++count) (void)*add(4, "greedy");
  pass();
  const auto more = *add(2, "greedy"), other = *add(2, "modest"), urgent = *add(2, "greedy", 1);
  batch_.end(now_, 1);
  pass();
  EXPECT_TRUE(batch_.has_begun(urgent));
  EXPECT_FALSE(batch_.has_begun(other));
  batch_.end(now_, 2);
  pass();
  EXPECT_TRUE(batch_.has_begun(other));
  EXPECT_FALSE(batch_.has_begun(more));
}

TEST_F(Batch, divides_the_places_among_those_who_ask) {
  const auto first = *add(2), second = *add(2), third = *add(2);
  pass();
  const auto other = *add(2, "b"), more = *add(2, "b");
  // The last of who has all places steps back, and no more than makes them even.
  EXPECT_THAT(pass(),
              ElementsAre(std::pair(first, 1u), std::pair(second, 1u), std::pair(other, 2u)));
  EXPECT_EQ(batch_.waiting(), 2u);
  batch_.end(now_, first);
  EXPECT_THAT(pass(),
              ElementsAre(std::pair(second, 1u), std::pair(other, 1u), std::pair(third, 3u)))
      << "who stepped back reads again what it had";
  batch_.end(now_, second);
  EXPECT_THAT(pass(), ElementsAre(std::pair(other, 1u), std::pair(third, 1u), std::pair(more, 2u)));
}

TEST_F(Batch, leaves_the_places_of_a_higher_priority_alone) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(add(2, "a", 5));
  pass();
  ASSERT_TRUE(add(2, "b"));
  for (const auto& [id, read] : pass()) EXPECT_LE(id, 3u);
}

TEST_F(Batch, refuses_more_than_may_wait) {
  for (int count = 0; count < 3; ++count) (void)*add(1);
  pass();
  for (int count = 0; count < 4; ++count) EXPECT_TRUE(add(1));
  const auto refused = add(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::resource_exhausted);
  EXPECT_THAT(refused.error().detail, HasSubstr("4 texts wait"));
}

TEST_F(Batch, refuses_at_once_what_would_not_be_begun_in_time) {
  for (int count = 0; count < 3; ++count) (void)*add(1);
  pass();
  now_ += 9s;
  batch_.end(now_, 1);  // took 9 s
  (void)*add(1);
  pass();
  deadline_ = now_ + 2s;  // a third of the nine
  const auto refused = add(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::resource_exhausted);
  EXPECT_THAT(refused.error().detail, HasSubstr("about 3 s"));
  deadline_ = now_ + 4s;
  EXPECT_TRUE(add(1));
  const auto behind = add(1);
  EXPECT_FALSE(behind) << "there is one before it now";
  EXPECT_TRUE(add(1, "a", 1)) << "which goes before that";
}

TEST_F(Batch, goes_on_from_the_newer_half_where_a_text_is_full) {
  const auto id = *add(20);
  EXPECT_THAT(pass(), ElementsAre(Read{id, 12}));
  EXPECT_THAT(pass(), ElementsAre(Read{id, 8}));
  EXPECT_THAT(pass(), ElementsAre(Read{id, 10})) << "the newest ten of twenty-one";
  EXPECT_THAT(pass(), ElementsAre(Read{id, 1}));
}

TEST_F(Batch, reads_the_end_of_a_prompt_that_is_longer_than_the_model_reads) {
  (void)*add(1000);
  const auto parts = batch_.next(now_);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].read.tokens[0], 100 + 980);
}

TEST_F(Batch, does_not_read_a_beginning_again_that_is_known) {
  const auto prompt = tokens(11);
  const auto order = [&] {
    return *batch_.add(now_, {.prompt = prompt, .deadline = deadline_, .client = "a"});
  };
  const auto first = order();
  EXPECT_THAT(pass(), ElementsAre(Read{first, 11}));
  const auto second = order();
  EXPECT_THAT(pass(), ElementsAre(Read{first, 1}, Read{second, 3}));
  batch_.end(now_, first);
  batch_.end(now_, second);
  const auto third = order();
  EXPECT_THAT(pass(), ElementsAre(Read{third, 3}));
}

TEST_F(Batch, begins_anew_with_all_texts_where_what_was_read_is_gone) {
  const auto prompt = tokens(11);
  const auto first = *batch_.add(now_, {.prompt = prompt, .deadline = deadline_, .client = "a"});
  EXPECT_THAT(pass(), ElementsAre(Read{first, 11}));
  const auto second = *add(3);
  EXPECT_THAT(pass(), ElementsAre(Read{first, 1}, Read{second, 3}));
  batch_.forget();
  EXPECT_EQ(batch_.cache_used(), 0);
  EXPECT_EQ(batch_.waiting(), 2u);
  EXPECT_TRUE(batch_.has_begun(first));
  // With the tokens that they had, the first 12 of them in one pass; and no beginning is known.
  EXPECT_THAT(pass(), ElementsAre(Read{first, 12}));
  batch_.end(now_, first);
  batch_.end(now_, second);
  batch_.forget();
  const auto third = *batch_.add(now_, {.prompt = prompt, .deadline = deadline_, .client = "a"});
  EXPECT_THAT(pass(), ElementsAre(Read{third, 11}));
}

// With a cache for less than two full texts.
TEST_F(Batch, has_the_last_one_step_back_where_the_cache_is_full_and_read_again_later) {
  auto small = limits();
  small.pages = 7;
  batch_ = TextBatch(small);
  const auto first = *add(10), second = *add(10);
  while (batch_.under_way() < 2) pass();
  std::size_t passes = 0;
  while (batch_.under_way() == 2 && ++passes < 50) pass();
  ASSERT_LT(passes, 50u) << "28 positions do not hold two texts of 20";
  EXPECT_EQ(batch_.waiting(), 1u);
  EXPECT_TRUE(batch_.has_begun(second));
  batch_.end(now_, first);
  const auto again = pass();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].first, second);
}

// Random texts, ends and passes: never more than the limits, no page written by two, positions in
// order, and every text gets on.
TEST_F(Batch, keeps_its_limits_whatever_comes) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto some = limits();
    some.pages = 5 + seed % 8;
    TextBatch batch(some);
    std::map<TextBatch::Id, std::size_t> left;
    std::size_t ended = 0;
    for (std::uint64_t step = 0; step < 3000; ++step) {
      const std::uint64_t draw = mix(seed, step);
      if (draw % 4 == 0 && left.size() < 7) {
        const auto id = batch.add(
            now_, {.prompt = tokens(1 + draw / 8 % 30, static_cast<model::Token>(draw % 3)),
                   .deadline = Time::max(),
                   .priority = static_cast<std::uint32_t>(draw % 2),
                   .client = std::to_string(draw % 3)});
        if (id) left[*id] = 1 + draw / 64 % 25;
      }
      std::size_t rows = 0;
      std::set<std::int32_t> written;
      Ids go_on;
      const auto parts = batch.next(now_);
      ASSERT_LE(parts.size(), some.texts);
      if (!left.empty()) {
        ASSERT_FALSE(parts.empty()) << "somebody gets on";
      }
      for (const TextBatch::Part& part : parts) {
        rows += part.read.tokens.size();
        const std::size_t end = part.read.position + part.read.tokens.size();
        ASSERT_LE(end, some.context);
        ASSERT_GE(part.read.pages.size() * some.page, end);
        for (std::size_t page = part.read.position / some.page; page * some.page < end; ++page)
          ASSERT_TRUE(written.insert(part.read.pages[page]).second) << "two write to one page";
        if (part.read.scored > 0) go_on.push_back(part.id);
      }
      ASSERT_LE(rows, some.rows);
      batch.on_read();
      for (const TextBatch::Id id : go_on) {
        if (--left.at(id) > 0) {
          batch.on_token(id, static_cast<model::Token>(step % 5));
          continue;
        }
        batch.end(now_, id);
        left.erase(id);
        ++ended;
      }
    }
    EXPECT_GT(ended, 50u);
  }
}

}  // namespace
}  // namespace gpunode::inference
