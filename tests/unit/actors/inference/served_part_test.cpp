// One part of a model: whose passes it computes, for whom it has room, and what it refuses of a head.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/inference/text_engine.hpp"
#include "tests/unit/actors/inference/parts_fixture.hpp"

namespace gpunode::inference {
namespace {

class OnePart : public InParts {
 protected:
  OnePart() {
    serve(2, 1);
    part_ = nodes_.parts[node_id(2)].get();
    const auto parts = *model_of_part().parts(ops::WeightFormat::fp32, 3);
    is_ = parts[1];
    open_ = {.part = part_->name(),
             .head = 1,
             .first_stage = static_cast<std::uint32_t>(is_.first_stage),
             .end_stage = static_cast<std::uint32_t>(is_.end_stage),
             .extents = {.texts = 2, .rows = 8, .pages = 6}};
  }
  const model::Model& model_of_part() {
    model_ = *model::make_model(
        "gpt", {{"layers", "4"}, {"heads", "2"}, {"channels", "16"}, {"context", "48"}});
    return *model_;
  }
  std::uint64_t opened(const PartOpen& order, const NodeId& from) {
    const auto answer = part_->answer(order, from);
    EXPECT_TRUE(answer) << answer.error().message();
    return answer ? std::get<PartOpened>(*answer).life : 0;
  }
  PartPass pass(std::uint64_t life) const {
    return {.part = part_->name(),
            .life = life,
            .rows = {.tokens = {},
                     .positions = {0},
                     .texts = {0},
                     .pages = {0, 1, 2, 3, 4, 5},
                     .chosen = {0}},
            .values = std::vector<float>(is_.takes, 0.25f)};
  }
  ErrorCode code_of(const PartMessage& asked, const NodeId& from) const {
    const auto answer = part_->answer(asked, from);
    return answer ? ErrorCode{} : answer.error().code;
  }

  std::unique_ptr<model::Model> model_;
  ServedPart* part_ = nullptr;
  model::ModelPart is_;
  PartOpen open_;
};

TEST_F(OnePart, AnswersThePassesOfWhoOpenedItAlone) {
  const std::uint64_t life = opened(open_, node_id(7));
  const auto made = part_->answer(pass(life), node_id(7));
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(std::get<PartValues>(*made).values.size(), is_.gives);
  EXPECT_EQ(code_of(pass(life), node_id(8)), ErrorCode::wrong_state);
  EXPECT_EQ(code_of(pass(life + 1), node_id(7)), ErrorCode::wrong_state);
  // Anew: what was before is over.
  const std::uint64_t next = opened(open_, node_id(7));
  EXPECT_NE(next, life);
  EXPECT_EQ(code_of(pass(life), node_id(7)), ErrorCode::wrong_state);
  EXPECT_EQ(code_of(pass(next), node_id(7)), ErrorCode{});
}

TEST_F(OnePart, IsOpenForAFewHeadsAtOnce) {
  std::vector<std::uint64_t> lives;
  for (std::uint8_t head = 1; head <= 4; ++head) lives.push_back(opened(open_, node_id(head)));
  EXPECT_EQ(code_of(open_, node_id(5)), ErrorCode::resource_exhausted);
  for (std::uint8_t head = 1; head <= 4; ++head)
    EXPECT_EQ(code_of(pass(lives[head - 1u]), node_id(head)), ErrorCode{});
  // Who has not asked for long makes room.
  clock_.seen += 40s;
  EXPECT_EQ(code_of(pass(lives[0]), node_id(1)), ErrorCode{});
  clock_.seen += 40s;
  opened(open_, node_id(5));
  EXPECT_EQ(code_of(pass(lives[1]), node_id(2)), ErrorCode::wrong_state);
  EXPECT_EQ(code_of(pass(lives[0]), node_id(1)), ErrorCode{});
}

TEST_F(OnePart, HasRoomForTwoHeadsOfANodeAtMost) {
  PartOpen order = open_;
  std::vector<std::uint64_t> own;
  for (order.head = 1; order.head <= 3; ++order.head) {
    own.push_back(opened(order, node_id(1)));
    clock_.seen += 1s;
  }
  EXPECT_EQ(code_of(pass(own[0]), node_id(1)), ErrorCode::wrong_state);
  EXPECT_EQ(code_of(pass(own[2]), node_id(1)), ErrorCode{});
  EXPECT_EQ(code_of(pass(own[1]), node_id(1)), ErrorCode{});
  const std::uint64_t second = opened(open_, node_id(2)), third = opened(open_, node_id(3));
  // Where others have one each, who has two gives one up.
  clock_.seen += 1s;
  EXPECT_EQ(code_of(pass(own[1]), node_id(1)), ErrorCode{});
  const std::uint64_t fourth = opened(open_, node_id(4));
  EXPECT_EQ(code_of(pass(own[2]), node_id(1)), ErrorCode::wrong_state);
  EXPECT_EQ(code_of(pass(own[1]), node_id(1)), ErrorCode{});
  EXPECT_EQ(code_of(pass(second), node_id(2)), ErrorCode{});
  EXPECT_EQ(code_of(pass(third), node_id(3)), ErrorCode{});
  EXPECT_EQ(code_of(pass(fourth), node_id(4)), ErrorCode{});
  EXPECT_EQ(code_of(open_, node_id(5)), ErrorCode::resource_exhausted);
}

TEST_F(OnePart, GivesBackRoomThatNobodyUses) {
  const std::uint64_t life = opened(open_, node_id(7));
  clock_.seen += 9min;
  part_->forget_unused();
  EXPECT_EQ(code_of(pass(life), node_id(7)), ErrorCode{});
  clock_.seen += 10min;
  part_->forget_unused();
  EXPECT_EQ(code_of(pass(life), node_id(7)), ErrorCode::wrong_state);
}

// The room may have been another head's before.
TEST_F(OnePart, LetsNoRowAttendToWhatItsHeadHasNotWritten) {
  const std::uint64_t life = opened(open_, node_id(7));
  const auto code_at = [&](std::vector<std::int32_t> positions, std::vector<std::int32_t> pages) {
    PartPass asked = pass(life);
    asked.rows.texts.assign(positions.size(), 0);
    asked.values.assign(positions.size() * is_.takes, 0.25f);
    asked.rows.positions = std::move(positions);
    asked.rows.pages = std::move(pages);
    return code_of(asked, node_id(7));
  };
  const std::vector<std::int32_t> pages{0, 1, 2, 3, 4, 5};
  EXPECT_EQ(code_at({1}, pages), ErrorCode::invalid_argument);
  EXPECT_EQ(code_at({0, 1, 2}, pages), ErrorCode{});
  EXPECT_EQ(code_at({3}, pages), ErrorCode{});
  EXPECT_EQ(code_at({3}, {3, 1, 2, 0, 4, 5}), ErrorCode::invalid_argument);  // of the other text
  EXPECT_EQ(code_at({5}, pages), ErrorCode::invalid_argument);
  EXPECT_EQ(code_at({6}, pages), ErrorCode::invalid_argument);  // what was refused wrote nothing
  EXPECT_EQ(code_at({5, 4}, pages), ErrorCode{});
  for (std::int32_t position = 6; position < 16; ++position)
    EXPECT_EQ(code_at({position}, pages), ErrorCode{});
  EXPECT_EQ(code_at({16}, pages), ErrorCode{});
  EXPECT_EQ(code_at({17}, {4, 1, 2, 3, 0, 5}), ErrorCode::invalid_argument);
  // Anew: nothing is.
  const std::uint64_t next = opened(open_, node_id(7));
  PartPass asked = pass(next);
  asked.rows.positions = {1};
  EXPECT_EQ(code_of(asked, node_id(7)), ErrorCode::invalid_argument);
}

TEST_F(OnePart, ForgetsWhatItsHeadCloses) {
  const std::uint64_t life = opened(open_, node_id(7));
  EXPECT_EQ(code_of(PartClose{part_->name(), life}, node_id(8)), ErrorCode{});  // not its own
  EXPECT_EQ(code_of(pass(life), node_id(7)), ErrorCode{});
  EXPECT_EQ(code_of(PartClose{part_->name(), life}, node_id(7)), ErrorCode{});
  EXPECT_EQ(code_of(pass(life), node_id(7)), ErrorCode::wrong_state);
}

TEST_F(OnePart, RefusesWhatDoesNotFit) {
  const auto refuses = [&](auto change) {
    PartOpen order = open_;
    change(order);
    return code_of(order, node_id(7));
  };
  EXPECT_EQ(refuses([](PartOpen& one) { one.extents.texts = 0; }), ErrorCode::invalid_argument);
  EXPECT_EQ(refuses([](PartOpen& one) { one.extents.rows = 1; }), ErrorCode::invalid_argument);
  EXPECT_EQ(refuses([](PartOpen& one) { one.extents.pages = 0; }), ErrorCode::invalid_argument);
  EXPECT_EQ(refuses([](PartOpen& one) {
              one.extents = {~0u, ~0u, ~0u};
            }),
            ErrorCode::invalid_argument);
  // Room that no head needs.
  EXPECT_EQ(refuses([](PartOpen& one) { one.extents.rows = TextEngine::kMostRows + 1; }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(refuses([&](PartOpen& one) {
              one.extents.pages = TextEngine::kCacheBytes / is_.page_bytes + 1;
            }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(refuses([](PartOpen& one) { ++one.end_stage; }), ErrorCode::unsupported);
  const std::uint64_t life = opened(open_, node_id(7));
  PartPass bad = pass(life);
  bad.rows.positions[0] = -1;
  EXPECT_EQ(code_of(bad, node_id(7)), ErrorCode::invalid_argument);
  bad = pass(life);
  bad.rows.positions.assign(1u << 20, 0);
  EXPECT_EQ(code_of(bad, node_id(7)), ErrorCode::invalid_argument);
  bad = pass(life);
  bad.rows.chosen.assign(1u << 20, 0);
  EXPECT_EQ(code_of(bad, node_id(7)), ErrorCode::invalid_argument);
  bad = pass(life);
  bad.values.clear();
  EXPECT_EQ(code_of(bad, node_id(7)), ErrorCode::invalid_argument);
  bad = pass(life);
  bad.rows.chosen = {0, 0};
  EXPECT_EQ(code_of(bad, node_id(7)), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(PartValues{}, node_id(7)), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(pass(life), node_id(7)), ErrorCode{});
}

}  // namespace
}  // namespace gpunode::inference
