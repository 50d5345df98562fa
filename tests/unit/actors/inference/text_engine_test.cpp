// Texts that are continued together: each is what it is alone, each is answered once, and nobody's
// end is another's.
#include "actors/inference/text_engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "tests/support/set_clock.hpp"

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class Engine : public ::testing::Test {
 protected:
  Engine() {
    weights_.resize(model_->parameter_count());
    model_->initialise(4, weights_);
    EXPECT_TRUE(program_->load(weights_));
    open();
  }
  void open(std::size_t texts = 16, std::uint64_t cache_bytes = 1 << 30) {
    auto engine = TextEngine::open(*program_, {.model = model_.get(),
                                               .tokenizer = tokenizer::Tokenizer::of_bytes(),
                                               .ends = ends_,
                                               .clock = &clock_,
                                               .texts = texts,
                                               .cache_bytes = cache_bytes});
    ASSERT_TRUE(engine) << engine.error().message();
    engine_ = *std::move(engine);
  }
  // The answer comes to `answers_` in this place.
  std::size_t begin(GenerateRequest request, Time deadline = Time::max(), GivePiece give = {}) {
    const std::size_t place = answers_.size();
    answers_.emplace_back();
    engine_->begin({.request = std::move(request),
                    .deadline = deadline,
                    .client = "c" + std::to_string(place % 3),
                    .give = std::move(give),
                    .done = [this, place](Result<GenerateAnswer> answer) {
                      EXPECT_FALSE(answers_[place]) << "answered twice";
                      answers_[place] = std::move(answer);
                    }});
    return place;
  }
  void run() {
    for (int pass = 0; pass < 10000 && !engine_->is_idle(); ++pass) (void)engine_->pass();
    EXPECT_TRUE(engine_->is_idle());
  }
  static GenerateRequest request(int number) {
    const char* const kPrompts[] = {"", "To be, or not to be", "To be, or not to be that",
                                    "\xf0\x9f\x98\x80 and \xff bytes", "a"};
    std::string prompt = kPrompts[number % 5];
    if (number % 4 == 3) prompt = std::string(50, 'x') + prompt;  // longer than the model reads
    return {.prompt = prompt,
            .max_tokens = static_cast<std::uint32_t>(1 + 7 * number % 60),
            .temperature = number % 3 == 0 ? 0 : 1.3,
            .top_k = number % 2 == 0 ? 0u : 40u,
            .frequency_penalty = number % 5 == 0 ? 0.5 : 0,
            .seed = static_cast<std::uint64_t>(number)};
  }
  ErrorCode code_of(std::size_t place) const {
    return *answers_[place] ? ErrorCode{} : (*answers_[place]).error().code;
  }

  testing::SetClock clock_;
  std::vector<model::Token> ends_;
  std::unique_ptr<ops::Backend> backend_ = cpu::open_backend();
  std::unique_ptr<model::Model> model_ = *model::make_model(
      "gpt", {{"layers", "2"}, {"heads", "2"}, {"channels", "16"}, {"context", "48"}});
  std::unique_ptr<model::Program> program_ = *model_->program(*backend_, 1);
  std::vector<float> weights_;
  std::unique_ptr<TextEngine> engine_;
  std::vector<std::optional<Result<GenerateAnswer>>> answers_;
};

TEST_F(Engine, gives_each_text_that_it_gives_alone) {
  constexpr int kTexts = 40;
  std::vector<std::string> alone;
  for (int number = 0; number < kTexts; ++number) {
    const std::size_t place = begin(request(number));
    run();
    ASSERT_TRUE(*answers_[place]) << (*answers_[place]).error().message();
    EXPECT_EQ((*answers_[place])->tokens, request(number).max_tokens);
    alone.push_back((*answers_[place])->text);
    open();
  }
  for (const std::uint64_t cache_bytes : {std::uint64_t{1} << 30, std::uint64_t{1}}) {
    open(6, cache_bytes);  // the smaller one holds a single full text
    answers_.clear();
    for (int number = 0; number < kTexts; ++number) {
      begin(request(number));
      if (number % 3 == 0) (void)engine_->pass();
    }
    run();
    for (int number = 0; number < kTexts; ++number) {
      const auto& answer = *answers_[static_cast<std::size_t>(number)];
      ASSERT_TRUE(answer) << answer.error().message();
      EXPECT_EQ(answer->text, alone[static_cast<std::size_t>(number)]) << number;
    }
  }
}

TEST_F(Engine, gives_pieces_that_make_up_the_text_and_ends_one_that_nobody_wants) {
  std::string pieces;
  const auto wanted = begin(request(1), Time::max(), [&](const TextPiece& piece) {
    pieces += piece.text;
    return true;
  });
  int given = 0;
  const auto unwanted =
      begin(request(6), Time::max(), [&](const TextPiece&) { return ++given < 3; });
  const auto other = begin(request(2));
  run();
  ASSERT_TRUE(*answers_[wanted]);
  EXPECT_EQ((*answers_[wanted])->text.substr(0, pieces.size()), pieces);
  EXPECT_FALSE(pieces.empty());
  EXPECT_EQ(code_of(unwanted), ErrorCode::cancelled);
  EXPECT_EQ(given, 3);
  EXPECT_TRUE(*answers_[other]);
}

TEST_F(Engine, cuts_a_text_at_its_deadline_and_refuses_one_that_was_not_begun) {
  open(1);
  const auto cut = begin(request(8), clock_.time + 2s);
  (void)engine_->pass();
  (void)engine_->pass();
  const auto late = begin(request(8), clock_.time + 1s);
  const auto patient = begin(request(2));
  clock_.time += 2s;
  run();
  ASSERT_TRUE(*answers_[cut]);
  EXPECT_EQ((*answers_[cut])->finish, "deadline");
  EXPECT_EQ((*answers_[cut])->tokens, 2u);
  EXPECT_EQ((*answers_[cut])->seconds, 2);
  EXPECT_EQ(code_of(late), ErrorCode::timeout);
  ASSERT_TRUE(*answers_[patient]);
  EXPECT_EQ((*answers_[patient])->finish, "length");
  EXPECT_EQ(code_of(begin(request(1), clock_.time)), ErrorCode::timeout) << "at once";
}

TEST_F(Engine, refuses_a_prompt_that_it_cannot_read_whole_if_it_is_to) {
  GenerateRequest long_one{.prompt = std::string(49, 'x'), .max_tokens = 2};
  const auto end_of_it = begin(long_one);
  long_one.whole_prompt = true;
  const auto refused = begin(long_one);
  run();
  EXPECT_TRUE(*answers_[end_of_it]);
  ASSERT_EQ(code_of(refused), ErrorCode::invalid_argument);
  EXPECT_THAT((*answers_[refused]).error().detail, HasSubstr("49 tokens, and the model reads 48"));
}

TEST_F(Engine, tells_of_each_token_as_the_model_rates_it) {
  GenerateRequest asked{.prompt = "To be",
                        .max_tokens = 12,
                        .temperature = 0.7,
                        .top_k = 3,
                        .frequency_penalty = 1.5,
                        .seed = 5};
  const auto plain = begin(asked);
  asked.likely = 4;
  std::string pieces, tokens;
  const auto told = begin(asked, Time::max(), [&](const TextPiece& piece) {
    pieces += piece.text;
    for (const TokenReport& report : piece.reports) tokens += report.token.bytes;
    return true;
  });
  run();
  ASSERT_TRUE(*answers_[told]);
  const GenerateAnswer& answer = **answers_[told];
  EXPECT_EQ(answer.text, (*answers_[plain])->text) << "to be told changes nothing";
  EXPECT_TRUE((*answers_[plain])->reports.empty());
  ASSERT_EQ(answer.reports.size(), 12u);
  EXPECT_EQ(tokens, answer.text) << "of bytes";
  // The model's own scores of what stands there by then.
  auto session = *program_->session();
  std::vector<float> scores(model_->vocabulary());
  std::string text = "To be";
  std::vector<model::Token> unread(text.begin(), text.end());
  std::uint32_t characters = 0;
  for (std::size_t at = 0; at < answer.text.size(); ++at) {
    ASSERT_TRUE(session->append(unread, scores));
    unread.assign(1, static_cast<unsigned char>(answer.text[at]));
    double total = 0;
    for (const float score : scores) total += std::exp(static_cast<double>(score));
    const TokenReport& report = answer.reports[at];
    const auto rated = [&](const RatedToken& one) {
      return scores[static_cast<unsigned char>(one.bytes[0])] - std::log(total);
    };
    EXPECT_NEAR(*report.token.log_probability, rated(report.token), 1e-5);
    ASSERT_EQ(report.likely.size(), 4u);
    EXPECT_NEAR(*report.likely[0].log_probability,
                *std::ranges::max_element(scores) - std::log(total), 1e-5);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      EXPECT_NEAR(*report.likely[rank].log_probability, rated(report.likely[rank]), 1e-5);
      if (rank > 0) {
        EXPECT_LE(*report.likely[rank].log_probability, *report.likely[rank - 1].log_probability);
      }
    }
    EXPECT_EQ(report.place, characters);
    characters += 1;  // what is no text counts by its bytes
  }
}

TEST_F(Engine, reads_tokens_as_they_are_and_refuses_those_that_are_none) {
  const auto as_text = begin({.prompt = "To be", .max_tokens = 9});
  const auto as_tokens =
      begin({.prompt = {}, .max_tokens = 9, .prompt_tokens = {'T', 'o', ' ', 'b', 'e'}});
  const auto echoed = begin(
      {.prompt = {}, .max_tokens = 9, .prompt_tokens = {'T', 'o', ' ', 'b', 'e'}, .echo = true});
  const auto echoed_text = begin({.prompt = "To be", .max_tokens = 9, .echo = true});
  const auto beyond = begin({.prompt = {}, .max_tokens = 9, .prompt_tokens = {1, 256}});
  const auto below = begin({.prompt = {}, .max_tokens = 9, .prompt_tokens = {-1}});
  run();
  ASSERT_TRUE(*answers_[as_tokens]);
  EXPECT_EQ((*answers_[as_tokens])->text, (*answers_[as_text])->text);
  EXPECT_EQ((*answers_[as_tokens])->prompt_tokens, 5u);
  EXPECT_EQ((*answers_[echoed])->text, "To be" + (*answers_[as_text])->text);
  EXPECT_EQ((*answers_[echoed_text])->text, "To be" + (*answers_[as_text])->text);
  for (const std::size_t wrong : {beyond, below})
    ASSERT_EQ(code_of(wrong), ErrorCode::invalid_argument);
  EXPECT_THAT((*answers_[beyond]).error().detail,
              HasSubstr("token 256 at place 1 is none of the model's, which are 0 to 255"));
}

TEST_F(Engine, keeps_a_text_to_its_form_and_others_out_of_it) {
  const auto alone = begin(request(2));
  run();
  const std::string schema = R"({"type": "json_schema", "schema": {"type": "object", "properties":
      {"name": {"type": "string", "maxLength": 6}, "sizes": {"type": "array",
       "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}}, "required": ["name", "sizes"]}})";
  std::vector<std::size_t> limited;
  for (std::uint64_t seed = 1; seed < 6; ++seed)
    limited.push_back(begin({.prompt = "a", .max_tokens = 2000, .seed = seed, .form = schema}));
  const auto again = begin({.prompt = "a", .max_tokens = 2000, .seed = 1, .form = schema});
  const auto beside = begin(request(2));
  run();
  for (const std::size_t place : limited) {
    ASSERT_TRUE(*answers_[place]) << (*answers_[place]).error().message();
    const GenerateAnswer& answer = **answers_[place];
    EXPECT_EQ(answer.finish, "stop");
    const auto value = nlohmann::json::parse(answer.text, nullptr, false);
    ASSERT_TRUE(value.is_object()) << answer.text;
    EXPECT_TRUE(value["name"].is_string());
    EXPECT_TRUE(value["sizes"][0].is_number_integer()) << answer.text;
  }
  EXPECT_EQ((*answers_[again])->text, (*answers_[limited[0]])->text);
  EXPECT_NE((*answers_[limited[1]])->text, (*answers_[limited[0]])->text);
  EXPECT_EQ((*answers_[beside])->text, (*answers_[alone])->text);
}

TEST_F(Engine, tells_of_a_text_in_a_form_what_the_model_thought_without_it) {
  GenerateRequest asked{.prompt = "a", .max_tokens = 1, .temperature = 0, .likely = 1};
  const auto free = begin(asked);
  asked.form = R"({"type": "choice", "choices": ["yes", "no"]})";
  const auto limited = begin(asked);
  run();
  const TokenReport &one = (*answers_[free])->reports[0], &other = (*answers_[limited])->reports[0];
  EXPECT_EQ(other.likely[0].bytes, one.token.bytes);
  EXPECT_EQ(other.likely[0].log_probability, one.token.log_probability);
  EXPECT_THAT(other.token.bytes, ::testing::AnyOf("y", "n"));
  EXPECT_LE(*other.token.log_probability, *one.token.log_probability);
}

TEST_F(Engine, cuts_a_text_in_a_form_by_its_length_and_ends_it_with_an_end_only_where_it_may) {
  ends_ = {'z'};
  open();
  const std::string form = R"({"type": "choice", "choices": ["a", "ab", "abcdefg"]})";
  const auto cut = begin(
      {.prompt = "a", .max_tokens = 4, .form = R"({"type": "choice", "choices": ["abcdefg"]})"});
  std::vector<std::size_t> free;
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    free.push_back(begin({.prompt = "a", .max_tokens = 40, .seed = seed, .form = form}));
  run();
  EXPECT_EQ((*answers_[cut])->text, "abcd");
  EXPECT_EQ((*answers_[cut])->finish, "length");
  std::set<std::string> seen;
  for (const std::size_t place : free) {
    EXPECT_EQ((*answers_[place])->finish, "stop");
    seen.insert((*answers_[place])->text);
  }
  EXPECT_THAT(seen, ::testing::UnorderedElementsAre("a", "ab", "abcdefg"));
}

TEST_F(Engine, refuses_a_form_that_it_does_not_know_or_has_no_letters_for) {
  const auto refused = begin({.prompt = "a", .max_tokens = 4, .form = R"({"type": "json_schema",
      "schema": {"type": "string", "pattern": "a+"}})"});
  ends_ = {'y'};
  open();
  const auto without =
      begin({.prompt = "a", .max_tokens = 4, .form = R"({"type": "choice", "choices": ["yes"]})"});
  run();
  ASSERT_EQ(code_of(refused), ErrorCode::unsupported);
  EXPECT_THAT((*answers_[refused]).error().detail, HasSubstr("#/pattern"));
  ASSERT_EQ(code_of(without), ErrorCode::unsupported);
  EXPECT_THAT((*answers_[without]).error().detail, HasSubstr("no token of the model"));
}

TEST_F(Engine, ends_a_text_where_the_model_does) {
  const auto place = begin({.prompt = "a", .max_tokens = 40, .temperature = 0});
  run();
  const auto text = (*answers_[place])->text;
  const auto end = static_cast<unsigned char>(text[3]);
  const std::size_t first = text.find(static_cast<char>(end));
  ends_ = {end};
  open();
  const auto ended = begin({.prompt = "a", .max_tokens = 40, .temperature = 0});
  run();
  EXPECT_EQ((*answers_[ended])->text, text.substr(0, first));
  EXPECT_EQ((*answers_[ended])->finish, "stop");
}

TEST_F(Engine, answers_by_what_a_pass_fails_with_those_that_were_read_in_it) {
  engine_.reset();
  program_ = *model_->program(*backend_, 1);  // without weights it cannot read
  open(1);
  const auto fails = begin(request(1)), waits = begin(request(2));
  EXPECT_FALSE(engine_->pass());
  EXPECT_EQ(code_of(fails), ErrorCode::wrong_state);
  EXPECT_FALSE(answers_[waits]);
  ASSERT_TRUE(program_->load(weights_));
  run();
  EXPECT_TRUE(*answers_[waits]);
}

}  // namespace
}  // namespace gpunode::inference
