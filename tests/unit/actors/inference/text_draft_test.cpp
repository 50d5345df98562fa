// Texts for which a smaller model guesses: whatever it guesses, each is what it is without it.
#include "actors/inference/text_draft.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/inference/text_engine.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "tests/support/set_clock.hpp"

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// A model with weights drawn from a seed.
struct Drawn {
  Drawn(ops::Backend& backend, std::uint64_t seed, const char* channels = "16",
        const char* context = "48", const char* vocabulary = "256") {
    model = *model::make_model("gpt", {{"layers", "2"},
                                       {"heads", "2"},
                                       {"channels", channels},
                                       {"context", context},
                                       {"vocabulary", vocabulary}});
    program = *model->program(backend, 1);
    weights.resize(model->parameter_count());
    model->initialise(seed, weights);
    EXPECT_TRUE(program->load(weights));
  }
  std::unique_ptr<model::Model> model;
  std::unique_ptr<model::Program> program;
  std::vector<float> weights;
};

// Gives decoders that read nothing once `fails` is set.
class FailingProgram final : public model::Program {
 public:
  explicit FailingProgram(model::Program& program) : program_(program) {}
  bool fails = false;

  Result<void> load(std::span<const float> parameters) override {
    return program_.load(parameters);
  }
  Result<model::LossSum> gradient(int worker, std::span<const model::Sample> samples,
                                  std::span<float> out) override {
    return program_.gradient(worker, samples, out);
  }
  Result<model::Evaluation> evaluate(int worker, std::span<const model::Sample> samples) override {
    return program_.evaluate(worker, samples);
  }
  Result<std::unique_ptr<model::Session>> session() override { return program_.session(); }
  Result<std::unique_ptr<model::Decoder>> decoder(const model::DecoderOptions& options) override {
    auto decoder = program_.decoder(options);
    if (!decoder) return decoder.error();
    return std::unique_ptr<model::Decoder>(new Failing(*std::move(decoder), fails));
  }

 private:
  class Failing final : public model::Decoder {
   public:
    Failing(std::unique_ptr<model::Decoder> decoder, const bool& fails)
        : decoder_(std::move(decoder)), fails_(fails) {}
    std::size_t context() const override { return decoder_->context(); }
    std::size_t page() const override { return decoder_->page(); }
    std::size_t pages() const override { return decoder_->pages(); }
    std::size_t most_texts() const override { return decoder_->most_texts(); }
    std::size_t most_rows() const override { return decoder_->most_rows(); }
    bool steps_back() const override { return decoder_->steps_back(); }
    Result<void> read(std::span<const model::TextPart> parts, std::span<float> scores) override {
      if (fails_) return {ErrorCode::internal, "no more guesses"};
      return decoder_->read(parts, scores);
    }

   private:
    std::unique_ptr<model::Decoder> decoder_;
    const bool& fails_;
  };
  model::Program& program_;
};

class Drafted : public ::testing::Test {
 protected:
  Result<void> open(Drawn* draft, std::uint64_t cache_bytes = 1 << 30,
                    model::Program* program = nullptr) {
    TextEngine::Options options{.model = big_.model.get(),
                                .tokenizer = tokenizer::Tokenizer::of_bytes(),
                                .ends = ends_,
                                .clock = &clock_,
                                .cache_bytes = cache_bytes};
    if (draft) {
      options.draft = draft->model.get();
      options.draft_program = program ? program : draft->program.get();
    }
    auto engine = TextEngine::open(*big_.program, options);
    if (!engine) return engine.error();
    engine_ = *std::move(engine);
    answers_.clear();
    return {};
  }
  std::size_t begin(GenerateRequest request, GivePiece give = {}, Time deadline = Time::max()) {
    const std::size_t place = answers_.size();
    answers_.emplace_back();
    engine_->begin({.request = std::move(request),
                    .deadline = deadline,
                    .client = {},
                    .give = std::move(give),
                    .done = [this, place](Result<GenerateAnswer> answer) {
                      EXPECT_FALSE(answers_[place]) << "answered twice";
                      answers_[place] = std::move(answer);
                    }});
    return place;
  }
  int run() {
    int passes = 0;
    for (; passes < 10000 && !engine_->is_idle(); ++passes) {
      EXPECT_TRUE(engine_->pass());
    }
    EXPECT_TRUE(engine_->is_idle());
    return passes;
  }
  GenerateAnswer answer(std::size_t place) const {
    EXPECT_TRUE(answers_[place] && *answers_[place]);
    return answers_[place] && *answers_[place] ? **answers_[place] : GenerateAnswer{};
  }
  // Of every kind that changes how a token is chosen or where a text ends.
  static GenerateRequest request(int number) {
    GenerateRequest asked{
        .prompt = std::string(static_cast<std::size_t>(number * 7 % 60), 'x') + "To be, or not",
        .max_tokens = static_cast<std::uint32_t>(1 + 11 * number % 70),
        .temperature = number % 3 == 0 ? 0 : 0.2 * (number % 7),
        .top_k = number % 4 == 0 ? 0u : 30u,
        .frequency_penalty = number % 5 == 0 ? 0.5 : 0,
        .seed = static_cast<std::uint64_t>(number)};
    if (number % 6 == 1) asked.top_p = 0.8;
    if (number % 6 == 2) asked.min_p = 0.1;
    if (number % 6 == 3) asked.repetition_penalty = 1.2;
    if (number % 6 == 4) asked.stop = {"e", "\x80"};
    if (number % 8 == 5) asked.likely = 2;
    if (number % 9 == 5) asked.echo = true;
    if (number % 10 == 7) asked.form = R"({"type": "choice", "choices": ["abc", "abd", "xyz"]})";
    return asked;
  }
  static constexpr int kTexts = 60;
  // `together` of them at once; alike in all that an answer tells but its time.
  std::vector<GenerateAnswer> all(std::size_t together) {
    std::vector<std::size_t> places;
    for (int number = 0; number < kTexts; ++number) {
      places.push_back(begin(request(number)));
      if (places.size() % together == 0) run();
    }
    run();
    std::vector<GenerateAnswer> told;
    for (const std::size_t place : places) told.push_back(answer(place));
    return told;
  }
  static void expect_same(const std::vector<GenerateAnswer>& one,
                          const std::vector<GenerateAnswer>& other) {
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t at = 0; at < one.size(); ++at) {
      EXPECT_EQ(one[at].text, other[at].text) << at;
      EXPECT_EQ(one[at].tokens, other[at].tokens) << at;
      EXPECT_EQ(one[at].finish, other[at].finish) << at;
      ASSERT_EQ(one[at].reports.size(), other[at].reports.size()) << at;
      for (std::size_t place = 0; place < one[at].reports.size(); ++place) {
        EXPECT_EQ(one[at].reports[place].token.log_probability,
                  other[at].reports[place].token.log_probability);
        EXPECT_EQ(one[at].reports[place].place, other[at].reports[place].place);
      }
    }
  }

  testing::SetClock clock_;
  std::vector<model::Token> ends_;
  std::unique_ptr<ops::Backend> backend_ = cpu::open_backend();
  Drawn big_{*backend_, 4}, same_{*backend_, 4}, other_{*backend_, 5, "8"},
      short_{*backend_, 4, "16", "30"};
  std::unique_ptr<TextEngine> engine_;
  std::vector<std::optional<Result<GenerateAnswer>>> answers_;
};

TEST_F(Drafted, texts_go_on_without_one_that_fails) {
  const GenerateRequest asked{.prompt = "To be, or not", .max_tokens = 30, .temperature = 0};
  ASSERT_TRUE(open(nullptr));
  const std::size_t alone = begin(asked);
  run();
  const std::string text = answer(alone).text;
  FailingProgram failing(*same_.program);
  ASSERT_TRUE(open(&same_, 1 << 30, &failing));
  const std::size_t one = begin(asked);
  for (int pass = 0; pass < 3; ++pass) ASSERT_TRUE(engine_->pass());
  EXPECT_GT(engine_->draft()->counts().guessed, 0u);
  failing.fails = true;
  run();
  EXPECT_EQ(answer(one).text, text);
  EXPECT_EQ(engine_->draft(), nullptr);
  engine_.reset();
}

TEST_F(Drafted, texts_are_the_same_with_and_without_it_whatever_it_guesses) {
  ASSERT_TRUE(open(nullptr));
  const auto without = all(1);
  for (Drawn* draft : {&same_, &other_, &short_})
    for (const std::size_t together : {1, 3, 16, 60}) {
      ASSERT_TRUE(open(draft));
      expect_same(all(together), without);
      EXPECT_GT(engine_->draft()->counts().guessed, 0u);
    }
  ASSERT_TRUE(open(&same_, 1));  // a cache of one full text: they step back for each other
  expect_same(all(4), without);
  ends_ = {'e', 7};
  ASSERT_TRUE(open(nullptr));
  const auto ended = all(1);
  ASSERT_TRUE(open(&same_));
  expect_same(all(2), ended);
}

TEST_F(Drafted, one_that_is_always_right_saves_passes_and_one_that_is_wrong_is_left_out) {
  const GenerateRequest asked{.prompt = "To be", .max_tokens = 40, .temperature = 0};
  ASSERT_TRUE(open(nullptr));
  begin(asked);
  EXPECT_EQ(run(), 40);
  ASSERT_TRUE(open(&same_));
  begin(asked);
  EXPECT_LE(run(), 10);
  const TextDraft::Counts right = engine_->draft()->counts();
  EXPECT_EQ(right.right, right.guessed) << "the same bits";
  EXPECT_GE(right.right, 30u);
  // Drawn with the same numbers it is right there too.
  begin({.prompt = "To be", .max_tokens = 40, .temperature = 1.5, .seed = 9});
  EXPECT_LE(run(), 10);
  ASSERT_TRUE(open(&other_));
  begin({.prompt = "To be", .max_tokens = 1000, .temperature = 0});
  EXPECT_GT(run(), 900);
  EXPECT_LT(engine_->draft()->counts().guessed, 100u);
}

TEST_F(Drafted, is_not_asked_where_many_texts_are_under_way) {
  ASSERT_TRUE(open(&same_));
  for (int text = 0; text < 5; ++text) begin({.prompt = "To be", .max_tokens = 20, .seed = 1});
  run();
  EXPECT_EQ(engine_->draft()->counts().guessed, 0u);
}

TEST_F(Drafted, a_text_that_nobody_wants_any_more_ends_in_the_middle_of_a_guess) {
  ASSERT_TRUE(open(nullptr));
  const auto alone = begin(request(2));
  run();
  const std::string expected = answer(alone).text;
  ASSERT_TRUE(open(&same_));
  int given = 0;
  const auto gone = begin({.prompt = "a", .max_tokens = 40, .temperature = 0},
                          [&](const TextPiece&) { return ++given < 4; });
  const auto beside = begin(request(2));
  run();
  ASSERT_FALSE(*answers_[gone]);
  EXPECT_EQ((*answers_[gone]).error().code, ErrorCode::cancelled);
  EXPECT_EQ(given, 4);
  EXPECT_EQ(answer(beside).text, expected);
  const auto late = begin({.prompt = "a", .max_tokens = 40}, {}, clock_.time + 1s);
  for (int pass = 0; pass < 3; ++pass) ASSERT_TRUE(engine_->pass());
  clock_.time += 2s;
  run();
  EXPECT_EQ(answer(late).finish, "deadline");
}

TEST_F(Drafted, refuses_one_of_other_tokens) {
  Drawn small(*backend_, 4, "16", "48", "200");
  const auto opened = open(&small);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(opened.error().detail, HasSubstr("200 tokens and the model 256"));
}

class Guessing : public Drafted {
 protected:
  Guessing() {  // what comes next is to depend on all that was read, not on the last token alone
    for (float& weight : same_.weights) weight *= 8;
    EXPECT_TRUE(same_.program->load(same_.weights));
  }
  std::unique_ptr<TextDraft> draft(std::uint64_t cache_bytes = 1 << 20) {
    auto opened =
        TextDraft::open(*same_.program, {.model = same_.model.get(), .cache_bytes = cache_bytes});
    EXPECT_TRUE(opened);
    return *std::move(opened);
  }
  static std::vector<model::Token> guess(TextDraft& draft, TextBatch::Id id, std::string_view text,
                                         std::size_t most = 3) {
    const std::vector<model::Token> tokens(text.begin(), text.end());
    const model::TokenSampler greedy({.temperature = 0});
    auto guesses = draft.guess(std::vector<TextDraft::Order>{{id, tokens, &greedy, most}});
    EXPECT_TRUE(guesses && guesses->size() == 1);
    return guesses && guesses->size() == 1 ? guesses->front() : std::vector<model::Token>{};
  }
};

TEST_F(Guessing, forgets_what_it_read_of_a_text_that_goes_on_otherwise) {
  const auto mine = draft();
  const std::string text = "To be, or not to be";
  for (std::size_t size = 1; size <= text.size(); size += 3) {  // hardly as it guesses
    const std::string so_far = text.substr(0, size);
    EXPECT_EQ(guess(*mine, 1, so_far, 4), guess(*draft(), 1, so_far, 4)) << so_far;
  }
  EXPECT_EQ(guess(*mine, 1, "Whether"), guess(*draft(), 1, "Whether")) << "its beginning was cut";
}

TEST_F(Guessing, gives_the_room_of_texts_that_wait_or_are_over_to_others) {
  const auto mine = draft(1);  // of one full text
  const std::string full(44, 'x');
  const auto right = guess(*draft(), 1, full);
  ASSERT_EQ(right.size(), 3u);
  for (TextBatch::Id id = 1; id < 20; ++id) {
    EXPECT_EQ(guess(*mine, id, full), right);
    if (id % 2 == 0) mine->forget(id);
  }
  const std::vector<model::Token> tokens(full.begin(), full.end());
  const model::TokenSampler greedy({.temperature = 0});
  const std::vector<TextDraft::Order> two{{30, tokens, &greedy, 3}, {31, tokens, &greedy, 3}};
  ASSERT_TRUE(mine->guess(two)) << "the first half of it";
  const auto both = mine->guess(two);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->front(), right);
  EXPECT_TRUE(both->back().empty()) << "there is no room for a second one";
  EXPECT_TRUE(guess(*mine, 1, std::string(49, 'x')).empty()) << "it is longer than the draft reads";
  EXPECT_EQ(guess(*mine, 1, full, 1).size(), 1u) << "no more than it may";
}

TEST(GuessCount, follows_the_share_that_was_right) {
  GuessCount count;
  const std::size_t first = count.next();
  EXPECT_GT(first, 1u);
  for (int time = 0; time < 20; ++time) count.on_judged(4, 4);
  EXPECT_EQ(count.next(), GuessCount::kMost);
  for (int time = 0; time < 40; ++time) count.on_judged(4, 0);
  std::size_t guesses = 0;
  for (std::size_t token = 0; token < 10 * GuessCount::kTryAgain; ++token) guesses += count.next();
  EXPECT_EQ(guesses, 10u) << "one is tried now and then";
  for (int time = 0; time < 20; ++time) count.on_judged(1, 1);
  EXPECT_GT(count.next(), 1u);
}

}  // namespace
}  // namespace gpunode::inference
