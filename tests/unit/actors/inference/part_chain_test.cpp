// A model in parts, as if each were on a node of its own: the texts of the whole model, what happens to them
// where a part goes away, is started again, answers wrongly or late, and what a part refuses of a head.
#include "actors/inference/part_chain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "actors/inference/served_part.hpp"
#include "actors/inference/text_engine.hpp"
#include "tests/unit/actors/inference/served_fixture.hpp"

namespace gpunode::inference {
namespace {

using ::testing::HasSubstr;

NodeId node_id(std::uint8_t number) {
  NodeId id;
  id.value[0] = std::byte{number};
  return id;
}

// Nodes with parts, which the head reaches by calls of functions.
struct Nodes {
  std::map<NodeId, std::unique_ptr<ServedPart>> parts;
  std::map<NodeId, Error> failing;  // calls to them
  std::function<void(PartMessage&)> change = [](PartMessage&) {};
  std::function<void()> on_ask = [] {};
  std::vector<NodeId> asked;
  Duration longest{};
  NodeId head = node_id(99);

  PartAccess access() {
    return {.holders =
                [this](const PartName& name) {
                  std::vector<NodeId> found;
                  for (const auto& [id, part] : parts)
                    if (part->name() == name) found.push_back(id);
                  return found;
                },
            .ask = [this](const NodeId& node, const SharedBytes& request,
                          Duration timeout) { return ask(node, request, timeout); },
            .tell = [this](const NodeId& node,
                           const SharedBytes& message) { (void)ask(node, message, 1s); },
            .name_of =
                [](const NodeId& node) {
                  return "node" + std::to_string(static_cast<int>(node.value[0]));
                }};
  }
  Result<SharedBytes> ask(const NodeId& node, const SharedBytes& request, Duration timeout) {
    asked.push_back(node);
    longest = timeout;
    on_ask();
    if (const auto failed = failing.find(node); failed != failing.end()) return failed->second;
    const auto part = parts.find(node);
    if (part == parts.end()) return Error{ErrorCode::peer_lost, "gone"};
    const auto message = decode_part(request.view);
    if (!message) return message.error();
    auto answer = part->second->answer(*message, head);
    if (!answer) return answer.error();
    change(*answer);
    return SharedBytes::from(encode_part(*answer));
  }
};

class InParts : public Served {
 protected:
  InParts() { store_large(); }
  void store_large() {
    checkpoint::StoredModel stored;
    stored.model = std::move(*model::make_model(
        "gpt", {{"layers", "4"}, {"heads", "2"}, {"channels", "16"}, {"context", "48"}}));
    stored.weights.resize(stored.model->parameter_count());
    stored.model->initialise(3, stored.weights);
    EXPECT_TRUE(checkpoint::save_model(disk_, stored, "/large"));
  }
  ServedModel::Options part_options(std::size_t number, std::size_t of) {
    ServedModel::Options options = on(device(0));
    options.path = "/large";
    options.part = checkpoint::PartChoice{number, of};
    options.parts = nodes_.access();
    options.name = "big";
    return options;
  }
  void serve(std::uint8_t node, std::size_t number, std::size_t of = 3) {
    auto part = ServedPart::load(part_options(number, of));
    ASSERT_TRUE(part) << part.error().message();
    nodes_.parts[node_id(node)] = *std::move(part);
  }
  void serve_head(std::size_t of = 3) {
    auto head = ServedModel::load(part_options(0, of));
    ASSERT_TRUE(head) << head.error().message();
    head_ = *std::move(head);
  }
  void serve_all() {
    serve(2, 1);
    serve(3, 2);
    serve_head();
  }
  std::unique_ptr<ServedModel> whole() {
    ServedModel::Options options = on(device(0));
    options.path = "/large";
    return *ServedModel::load(options);
  }
  static GenerateRequest request(int number) {
    return {.prompt = std::string(static_cast<std::size_t>(1 + 13 * number), 'x') + " to be",
            .max_tokens = 60,  // longer than the model reads
            .temperature = number % 2 == 0 ? 0 : 1.2,
            .seed = static_cast<std::uint64_t>(number)};
  }
  std::string said(ServedModel& model, int number) {
    const auto told = model.generate(request(number), Time::max());
    EXPECT_TRUE(told) << told.error().message();
    return told ? told->text : "";
  }
  Error failure(int number = 0) {
    const auto told = head_->generate(request(number), Time::max());
    EXPECT_FALSE(told);
    return told ? Error{} : told.error();
  }

  Nodes nodes_;
  std::unique_ptr<ServedModel> head_;
};

TEST_F(InParts, TextsAreThoseOfTheWholeModelAndSoIsTheDigest) {
  const auto alone = whole();
  serve_all();
  EXPECT_EQ(head_->facts().digest, alone->facts().digest);
  EXPECT_EQ(nodes_.parts[node_id(2)]->facts().digest, alone->facts().digest);
  for (int number = 0; number < 4; ++number) EXPECT_EQ(said(*head_, number), said(*alone, number));
  // Several together, too.
  std::map<int, std::string> told;
  for (int number = 0; number < 4; ++number)
    head_->begin({.request = request(number),
                  .deadline = Time::max(),
                  .client = {},
                  .done = [&told, number](const Result<GenerateAnswer>& answer) {
                    told[number] = answer ? answer->text : answer.error().message();
                  }});
  while (!head_->is_idle()) ASSERT_TRUE(head_->pass());
  for (int number = 0; number < 4; ++number) EXPECT_EQ(told[number], said(*alone, number));
}

TEST_F(InParts, AHeadAloneRefusesCallsAndNamesThePart) {
  serve_head();
  EXPECT_EQ(failure().code, ErrorCode::unavailable);
  EXPECT_THAT(failure().message(), HasSubstr("part 2/3 of model big is missing"));
  EXPECT_THAT(failure().message(), HasSubstr("--part 2/3"));
  EXPECT_FALSE(head_->probe());
  serve(2, 1);
  EXPECT_THAT(failure().message(), HasSubstr("part 3/3 of model big is missing"));
  serve(3, 2);
  EXPECT_TRUE(head_->probe());
  EXPECT_EQ(said(*head_, 1), said(*whole(), 1));
}

TEST_F(InParts, APartThatGoesAwayIsNamedAndOneThatComesBackIsTakenUp) {
  serve_all();
  const std::string before = said(*head_, 0);
  nodes_.parts.erase(node_id(3));
  EXPECT_EQ(failure().code, ErrorCode::unavailable);
  EXPECT_THAT(failure().message(), HasSubstr("part 3/3 of model big is missing"));
  serve(4, 2);  // elsewhere
  EXPECT_EQ(said(*head_, 0), before);
}

// Its pages are empty, and nothing says so but its life.
TEST_F(InParts, APartThatWasStartedAgainIsNotTakenForTheOneBefore) {
  serve_all();
  const auto alone = whole();
  EXPECT_EQ(said(*head_, 1), said(*alone, 1));
  serve(3, 2);  // in place of that one
  // The beginning was remembered on the head.
  EXPECT_EQ(said(*head_, 1), said(*alone, 1));
}

TEST_F(InParts, TextsUnderWayGoOnWithAnotherNodeAsTheyWouldHave) {
  serve_all();
  serve(4, 2);
  const auto alone = whole();
  std::map<int, std::string> told;
  for (int number = 0; number < 3; ++number)
    head_->begin({.request = request(number),
                  .deadline = Time::max(),
                  .client = {},
                  .done = [&told, number](const Result<GenerateAnswer>& answer) {
                    told[number] = answer ? answer->text : answer.error().message();
                  }});
  for (int pass = 0; !head_->is_idle(); ++pass) {
    ASSERT_TRUE(head_->pass());
    if (pass == 9) nodes_.parts.erase(node_id(3));
  }
  for (int number = 0; number < 3; ++number) EXPECT_EQ(told[number], said(*alone, number));
}

TEST_F(InParts, TextsUnderWayAreAnsweredWherePartsAreGone) {
  serve_all();
  std::vector<Error> told;
  for (int number = 0; number < 3; ++number)
    head_->begin({.request = request(number),
                  .deadline = Time::max(),
                  .client = {},
                  .done = [&told](const Result<GenerateAnswer>& answer) {
                    ASSERT_FALSE(answer);
                    told.push_back(answer.error());
                  }});
  for (int pass = 0; pass < 5; ++pass) ASSERT_TRUE(head_->pass());
  nodes_.parts.erase(node_id(2));
  EXPECT_FALSE(head_->pass());
  ASSERT_EQ(told.size(), 3u);
  for (const Error& error : told) {
    EXPECT_EQ(error.code, ErrorCode::unavailable);
    EXPECT_THAT(error.message(), HasSubstr("part 2/3"));
  }
  EXPECT_TRUE(head_->is_idle());
}

TEST_F(InParts, WhoFailsIsPassedOverForAMoment) {
  serve_all();
  nodes_.failing[node_id(3)] = {ErrorCode::timeout, "late"};
  EXPECT_THAT(failure().message(), HasSubstr("node3: timeout: late"));
  nodes_.failing.clear();
  nodes_.asked.clear();
  EXPECT_THAT(failure().message(), HasSubstr("node3: timeout: late"));
  EXPECT_EQ(std::ranges::count(nodes_.asked, node_id(3)), 0);
  clock_.seen += 2s;
  said(*head_, 0);
}

TEST_F(InParts, APassIsWaitedForAsLongAsATextCanUseIt) {
  serve_all();
  const Time deadline = clock_.now() + 7s;
  EXPECT_TRUE(head_->generate(request(0), deadline));
  EXPECT_LE(nodes_.longest, 7s);
  EXPECT_GT(nodes_.longest, 6s);
}

TEST_F(InParts, AnswersThatDoNotFitAreNone) {
  serve_all();
  nodes_.change = [](PartMessage& answer) {
    if (auto* values = std::get_if<PartValues>(&answer)) values->values.pop_back();
  };
  EXPECT_EQ(failure().code, ErrorCode::unavailable);
  EXPECT_THAT(failure().message(), HasSubstr("part 2/3"));
  clock_.seen += 2s;
  nodes_.change = [](PartMessage& answer) { answer = PartOpened{1}; };
  EXPECT_EQ(failure().code, ErrorCode::unavailable);
  clock_.seen += 2s;
  nodes_.change = [](PartMessage& answer) {
    if (auto* values = std::get_if<PartValues>(&answer))
      values->values[0] = std::numeric_limits<float>::quiet_NaN();
  };
  EXPECT_THAT(failure().message(), HasSubstr("on node2: it makes numbers that are not"));
}

TEST_F(InParts, AnotherNodeComputesWhatOneMakesNonsenseOf) {
  serve_all();
  serve(4, 1);
  const std::string before = said(*whole(), 0);
  nodes_.change = [this](PartMessage& answer) {
    auto* values = std::get_if<PartValues>(&answer);
    if (values && nodes_.asked.back() == node_id(2))
      values->values[0] = std::numeric_limits<float>::quiet_NaN();
  };
  EXPECT_EQ(said(*head_, 0), before);
}

// Its time is up while a part computes: that is not the part's fault, nor that of the other texts.
TEST_F(InParts, ATextWhoseTimeIsUpCostsNoOtherItsAnswer) {
  serve_all();
  const auto alone = whole();
  const std::string other = said(*alone, 1);
  std::map<int, std::string> told;
  for (int number = 0; number < 2; ++number)
    head_->begin({.request = request(number),
                  .deadline = number == 0 ? clock_.now() + 10s : Time::max(),
                  .client = {},
                  .done = [&told, number](const Result<GenerateAnswer>& answer) {
                    told[number] = !answer                        ? answer.error().message()
                                   : answer->finish == "deadline" ? "deadline"
                                                                  : answer->text;
                  }});
  for (int pass = 0; !head_->is_idle(); ++pass) {
    if (pass == 5) {
      nodes_.failing[node_id(3)] = {ErrorCode::timeout, "late"};
      nodes_.on_ask = [this] { clock_.seen += 11s; };
    }
    (void)head_->pass();
    nodes_.on_ask = [] {};
    nodes_.failing.clear();
  }
  EXPECT_EQ(told[0], "deadline");
  // Both were waited for as long as the other one can use it, so the node was late for that one too.
  EXPECT_THAT(told[1], HasSubstr("node3: timeout: late"));
}

// The same, of a pass that is for that text alone.
TEST_F(InParts, ATextWhoseTimeIsUpBlamesNoPart) {
  serve_all();
  nodes_.failing[node_id(3)] = {ErrorCode::timeout, "late"};
  nodes_.on_ask = [this] { clock_.seen += 11s; };
  const auto late = head_->generate(request(0), clock_.now() + 10s);
  ASSERT_TRUE(late) << late.error().message();
  EXPECT_EQ(late->finish, "deadline");
  nodes_.failing.clear();
  nodes_.on_ask = [] {};
  EXPECT_EQ(said(*head_, 1), said(*whole(), 1));
}

// Else the first in the directory's order would be waited for again by every text.
TEST_F(InParts, WhoWasLateIsAskedAfterOthers) {
  serve_all();
  serve(4, 2);
  nodes_.failing[node_id(3)] = {ErrorCode::timeout, "late"};
  nodes_.on_ask = [this] { clock_.seen += 11s; };
  ASSERT_TRUE(head_->generate(request(0), clock_.now() + 10s));
  nodes_.on_ask = [] {};
  nodes_.asked.clear();
  EXPECT_EQ(said(*head_, 1), said(*whole(), 1));
  EXPECT_EQ(std::ranges::count(nodes_.asked, node_id(3)), 0);
}

// Which one text can bring about by what it says: that is no other's harm.
TEST_F(InParts, NumbersThatAreNotFiniteOfTheOnlyHolderEndTheTextsOfThatPassAlone) {
  serve_all();
  bool spoils = true;
  nodes_.change = [&](PartMessage& answer) {
    auto* values = std::get_if<PartValues>(&answer);
    if (values && std::exchange(spoils, false))
      values->values[0] = std::numeric_limits<float>::quiet_NaN();
  };
  const Error told = failure();
  EXPECT_EQ(told.code, ErrorCode::internal);
  EXPECT_THAT(told.message(), HasSubstr("part 2/3"));
  EXPECT_EQ(said(*head_, 1), said(*whole(), 1));  // at once
}

TEST_F(InParts, AHeadThatEndsGivesItsRoomBackAtOnce) {
  serve(2, 1);
  serve(3, 2);
  for (int head = 0; head < 9; ++head) {  // no time goes by
    serve_head();
    said(*head_, 0);
    head_.reset();
  }
}

TEST_F(InParts, PartsOfAnotherContentOrDivisionAreNotItsOwn) {
  serve(2, 1, 2);
  serve_head(3);
  EXPECT_THAT(failure().message(), HasSubstr("part 2/3 of model big is missing"));
}

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
