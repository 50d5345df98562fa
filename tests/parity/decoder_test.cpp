// What is read of one text does not depend on what stands beside it: texts of several lengths through
// one cache, in passes cut and mixed at random, against each of them alone, token by token.
#include "kernels/model/decoder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/model_code.hpp"
#include "kernels/model/registry.hpp"
#include "kernels/model/weight_layout.hpp"
#include "kernels/tensor/buffer.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {
namespace {

constexpr std::int64_t kContext = 70;

struct Named {
  const char* kind;
  Settings settings;
  ops::WeightFormat format = ops::WeightFormat::fp32;
};
const Named kModels[] = {
    {"gpt", {{"layers", "2"}, {"heads", "3"}, {"channels", "48"}, {"vocabulary", "61"}}},
    {"llama",
     {{"layers", "2"},
      {"heads", "4"},
      {"kv_heads", "2"},
      {"channels", "72"},
      {"hidden", "100"},
      {"vocabulary", "200"}}},
    {"gpt",
     {{"layers", "2"}, {"heads", "2"}, {"channels", "64"}, {"vocabulary", "61"}},
     ops::WeightFormat::int8},
    {"llama",
     {{"layers", "2"},
      {"heads", "4"},
      {"kv_heads", "2"},
      {"channels", "96"},
      {"hidden", "100"},  // the rows of one matrix fit no group
      {"tied", "0"},
      {"vocabulary", "200"}},
     ops::WeightFormat::int4},
    {"llama",
     {{"layers", "1"},
      {"heads", "3"},
      {"kv_heads", "3"},
      {"channels", "66"},
      {"hidden", "130"},
      {"vocabulary", "90"}},
     ops::WeightFormat::bf16}};

struct Fixture {
  std::unique_ptr<ops::Backend> backend = cpu::open_backend();
  std::unique_ptr<Model> model;
  std::unique_ptr<Program> program;
  std::vector<float> weights;
  tensor::Buffer image;

  explicit Fixture(const Named& one) {
    Settings settings = one.settings;
    settings["context"] = std::to_string(kContext);
    model = std::move(*make_model(one.kind, settings));
    program = std::move(*model->program(*backend, 1));
    weights.resize(model->parameter_count());
    model->initialise(5, weights);
    if (one.format == ops::WeightFormat::fp32)
      EXPECT_TRUE(program->load(weights));
    else
      load_in(one.format);
  }
  // And `weights` become the numbers that these stand for.
  void load_in(ops::WeightFormat format) {
    const WeightLayout layout = *model->weight_layout(format);
    image = *tensor::BufferPool(tensor::host_memory(), 1 << 30).take(layout.bytes);
    const MutableByteView bytes(image.as<std::byte>(), layout.bytes);
    std::size_t first = 0, packed = 0;
    for (std::size_t at = 0; at < layout.places.size(); ++at) {
      const WeightLayout::Place& place = layout.places[at];
      const std::span<float> values =
          std::span(weights).subspan(first, model->parameters()[at].element_count());
      EXPECT_TRUE(place_parameter(*model, layout, at, values, bytes));
      const auto inner = static_cast<std::size_t>(place.inner);
      const std::size_t row = ops::weight_row_bytes(place.format, place.inner);
      for (std::size_t r = 0; r * inner < values.size(); ++r)
        ops::unpack_weights(place.format, bytes.subspan(place.first + r * row, row),
                            values.subspan(r * inner, inner));
      if (place.format == format) packed += values.size();
      first += values.size();
    }
    EXPECT_GT(packed, weights.size() / 2) << "most are in " << ops::to_string(format);
    EXPECT_TRUE(program->load_image(format, bytes));
  }
  std::unique_ptr<Decoder> decoder(const DecoderOptions& options) {
    auto made = make_decoder(*model, *program, options);
    EXPECT_TRUE(made) << made.error().message();
    return std::move(*made);
  }
  std::vector<Token> text(std::uint64_t seed, std::size_t length) const {
    std::vector<Token> tokens(length);
    for (std::size_t at = 0; at < length; ++at)
      tokens[at] = static_cast<Token>(mix(seed, at) % model->vocabulary());
    return tokens;
  }
};

using Scores = std::vector<float>;

// After each token of the text, read alone and one by one.
std::vector<Scores> alone(Fixture& fixture, const std::vector<Token>& text) {
  const auto session = *make_session(*fixture.program);
  std::vector<Scores> all;
  for (const Token token : text) {
    all.emplace_back(fixture.model->vocabulary());
    EXPECT_TRUE(session->append(std::span(&token, 1), all.back()));
  }
  return all;
}

class DecoderTest : public ::testing::TestWithParam<Named> {};

TEST_P(DecoderTest, reads_each_text_as_if_it_were_alone) {
  Fixture fixture(GetParam());
  constexpr std::size_t kTexts = 5, kRows = 40;
  const auto decoder = fixture.decoder({.texts = kTexts, .rows = kRows});
  EXPECT_EQ(decoder->context(), static_cast<std::size_t>(kContext));
  const std::size_t vocabulary = fixture.model->vocabulary();
  std::vector<std::vector<Token>> texts;
  std::vector<std::vector<Scores>> expected;
  std::vector<std::vector<std::int32_t>> pages(kTexts);
  // Pages are handed out one by one, so that those of a text lie anywhere.
  for (std::int32_t page = 0; static_cast<std::size_t>(page) < decoder->pages(); ++page)
    pages[static_cast<std::size_t>(page) % kTexts].push_back(page);
  for (std::size_t text = 0; text < kTexts; ++text) {
    texts.push_back(fixture.text(text, 20 + 12 * text));
    expected.push_back(alone(fixture, texts.back()));
  }
  std::vector<std::size_t> read(kTexts, 0);
  std::set<std::size_t> pass_sizes;
  for (std::uint64_t pass = 0; pass < 500; ++pass) {
    std::vector<TextPart> parts;
    std::vector<std::size_t> who;
    std::size_t room = kRows, wanted = 0;
    for (std::size_t text = 0; text < kTexts; ++text) {
      const std::uint64_t draw = mix(pass, text);
      // Now and then it steps back, as if others had stood there.
      if (draw % 7 == 0 && pass < 400)
        read[text] -= std::min<std::size_t>(read[text], draw / 7 % 3);
      const std::size_t left = std::min(texts[text].size() - read[text], room);
      if (draw % 3 == 0 || left == 0) continue;
      const std::size_t count = 1 + (draw / 3) % std::min<std::size_t>(left, draw % 2 ? 1 : 17);
      parts.push_back({.tokens = std::span(texts[text]).subspan(read[text], count),
                       .position = read[text],
                       .pages = pages[text],
                       .scored = draw % 5 == 0 ? 0u : 1u});
      if (parts.back().scored > 0)  // those after it find room for one each
        parts.back().scored = std::min(count, text + 1 - wanted);
      who.push_back(text);
      room -= count;
      wanted += parts.back().scored;
    }
    Scores scores(wanted * vocabulary);
    ASSERT_TRUE(decoder->read(parts, scores));
    pass_sizes.insert(kRows - room);
    auto from = scores.begin();
    for (std::size_t at = 0; at < parts.size(); ++at) {
      read[who[at]] += parts[at].tokens.size();
      for (std::size_t back = parts[at].scored; back > 0; --back) {
        const Scores& right = expected[who[at]][read[who[at]] - back];
        ASSERT_TRUE(std::equal(right.begin(), right.end(), from))
            << "text " << who[at] << " at " << read[who[at]] << " beside " << parts.size() - 1;
        from += static_cast<std::ptrdiff_t>(vocabulary);
      }
    }
  }
  for (std::size_t text = 0; text < kTexts; ++text) EXPECT_EQ(read[text], texts[text].size());
  EXPECT_GT(pass_sizes.size(), 5u);
}

TEST_P(DecoderTest, texts_with_one_beginning_share_its_pages) {
  Fixture fixture(GetParam());
  const auto decoder = fixture.decoder({.texts = 2});
  const std::size_t page = decoder->page(), shared = 2 * page;
  std::vector<Token> first = fixture.text(1, shared + 5), second = first;
  second.back() = second.back() == 0 ? 1 : 0;
  const std::vector<std::int32_t> of_first{4, 2, 0}, of_second{4, 2, 1};
  Scores scores(fixture.model->vocabulary());
  const TextPart whole{.tokens = first, .position = 0, .pages = of_first};
  ASSERT_TRUE(decoder->read(std::span(&whole, 1), scores));
  EXPECT_EQ(scores, alone(fixture, first).back());
  const TextPart rest{
      .tokens = std::span(second).subspan(shared), .position = shared, .pages = of_second};
  ASSERT_TRUE(decoder->read(std::span(&rest, 1), scores));
  EXPECT_EQ(scores, alone(fixture, second).back());
}

// With weights in another format a text has the bits that their numbers give as fp32.
TEST_P(DecoderTest, reads_by_the_numbers_that_its_weights_stand_for) {
  Fixture fixture(GetParam());
  const std::vector<Token> text = fixture.text(3, 21);
  const std::vector<Scores> packed = alone(fixture, text);
  ASSERT_TRUE(fixture.program->load(fixture.weights));
  EXPECT_EQ(alone(fixture, text), packed);
}

TEST_P(DecoderTest, refuses_what_it_cannot_read) {
  Fixture fixture(GetParam());
  const auto decoder = fixture.decoder({.texts = 2, .rows = 20, .positions = 90});
  const std::size_t vocabulary = fixture.model->vocabulary();
  EXPECT_EQ(decoder->pages(), (90 + decoder->page() - 1) / decoder->page());
  const std::vector<Token> text = fixture.text(1, 21);
  const std::vector<std::int32_t> pages{0, 1, 2, 3, 4}, none{}, outside{0, 100}, before{-1};
  Scores scores(vocabulary);
  const auto code_of = [&](const TextPart& part) {
    const auto done = decoder->read(std::span(&part, 1), scores);
    return done ? ErrorCode{} : done.error().code;
  };
  const std::span<const Token> some = std::span(text).first(17);
  const Token unknown = static_cast<Token>(vocabulary);
  EXPECT_EQ(code_of({.tokens = text, .pages = pages}), ErrorCode::resource_exhausted);
  EXPECT_EQ(code_of({.tokens = some, .position = kContext - 16, .pages = pages}),
            ErrorCode::resource_exhausted);
  EXPECT_EQ(code_of({.tokens = {}, .pages = pages}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.tokens = some, .pages = none}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.tokens = some, .pages = outside}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.tokens = some.first(1), .pages = before}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.tokens = std::span(&unknown, 1), .pages = pages}),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.tokens = some, .pages = pages, .scored = 0}), ErrorCode::invalid_argument);
  const TextPart one{.tokens = some.first(1), .pages = pages};
  const std::vector<TextPart> three(3, one);
  Scores more(3 * vocabulary);
  EXPECT_EQ(decoder->read(three, more).error().code, ErrorCode::resource_exhausted);
  ASSERT_TRUE(decoder->read(std::span(&one, 1), scores)) << "what is right is still read";
}

INSTANTIATE_TEST_SUITE_P(Models, DecoderTest, ::testing::ValuesIn(kModels), [](const auto& info) {
  return info.param.kind + std::string("_") + std::string(ops::to_string(info.param.format));
});

// Of programs that know sessions alone.
TEST(SessionsAsDecoder, give_each_text_a_session) {
  Fixture fixture(kModels[0]);
  const auto decoder =
      *sessions_as_decoder(*fixture.program, fixture.model->vocabulary(), {.texts = 2});
  EXPECT_EQ(decoder->pages(), 2u);
  EXPECT_EQ(decoder->page(), decoder->context());
  const std::vector<Token> first = fixture.text(1, 9), second = fixture.text(2, 9);
  const std::vector<std::int32_t> one{1}, other{0};
  Scores scores(2 * fixture.model->vocabulary());
  for (std::size_t at = 0; at < first.size(); at += 3) {
    const TextPart parts[] = {
        {.tokens = std::span(first).subspan(at, 3), .position = at, .pages = one},
        {.tokens = std::span(second).subspan(at, 3), .position = at, .pages = other}};
    ASSERT_TRUE(decoder->read(parts, scores));
  }
  Scores both = alone(fixture, first).back();
  const Scores last = alone(fixture, second).back();
  both.insert(both.end(), last.begin(), last.end());
  for (std::size_t i = 0; i < both.size(); ++i) EXPECT_NEAR(scores[i], both[i], 1e-4);
  const TextPart behind{.tokens = first, .position = 5, .pages = one};
  EXPECT_FALSE(decoder->read(std::span(&behind, 1), std::span(scores).first(scores.size() / 2)));
}

}  // namespace
}  // namespace gpunode::model
