// A model in parts gives the bits that it gives whole: texts of several lengths in passes cut and mixed
// at random, through 1, 2 and 3 parts, each with an image of its own weights and a cache of its own
// layers. And what a part refuses, whoever sends it.
#include "kernels/model/decoder_part.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/model_code.hpp"
#include "kernels/model/registry.hpp"
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
// As GPT-2 is too, and as our jobs train it.
const Settings kGpt{{"layers", "3"}, {"heads", "2"}, {"channels", "64"}, {"vocabulary", "61"}};
const Settings kLlama{{"layers", "3"},   {"heads", "4"}, {"kv_heads", "2"},   {"channels", "96"},
                      {"hidden", "160"}, {"tied", "1"},  {"vocabulary", "90"}};
const Settings kQwen{{"layers", "4"},         {"heads", "4"},      {"kv_heads", "2"},
                     {"channels", "64"},      {"hidden", "96"},    {"tied", "0"},
                     {"attention_bias", "1"}, {"vocabulary", "90"}};
const Named kModels[] = {{"gpt", kGpt},
                         {"gpt", kGpt, ops::WeightFormat::int8},
                         {"llama", kLlama},
                         {"llama", kLlama, ops::WeightFormat::int8},
                         {"llama", kQwen, ops::WeightFormat::bf16},
                         {"llama", kQwen, ops::WeightFormat::int4}};

using Parts = std::vector<std::unique_ptr<DecoderPart>>;

// In this process.
class Others final : public PartsBehind {
 public:
  explicit Others(Parts parts) : parts_(std::move(parts)) {}
  Result<std::uint64_t> ready() override { return std::uint64_t{7}; }
  Result<void> run(const PassRows& rows, std::span<const float> in,
                   std::span<float> scores) override {
    PassRows without = rows;
    without.tokens.clear();
    std::vector<float> values(in.begin(), in.end());
    for (const auto& part : parts_) {
      std::vector<float> next(rows.positions.size() * part->is().gives);
      const std::span<float> out = part->is().is_last() ? scores : std::span(next);
      if (auto done = part->run(without, values, out); !done) return done;
      values = std::move(next);
    }
    return {};
  }

 private:
  Parts parts_;
};

struct Fixture {
  std::unique_ptr<ops::Backend> backend = cpu::open_backend();
  std::unique_ptr<Model> model;
  std::vector<float> weights;
  std::vector<std::unique_ptr<Program>> programs;  // as on nodes of their own
  std::vector<std::vector<std::byte>> images;
  std::vector<ModelPart> plan;

  explicit Fixture(const Named& one) {
    Settings settings = one.settings;
    settings["context"] = std::to_string(kContext);
    model = *make_model(one.kind, settings);
    weights.resize(model->parameter_count());
    model->initialise(5, weights);
  }
  ByteView image_of(const WeightLayout& layout) {
    // More than is needed, so that it can begin at 64 bytes.
    images.emplace_back(layout.bytes + 64);
    void* at = images.back().data();
    std::size_t room = layout.bytes + 64;
    std::align(64, layout.bytes, at, room);
    const MutableByteView bytes(static_cast<std::byte*>(at), layout.bytes);
    std::size_t first = 0;
    for (std::size_t p = 0; p < layout.places.size(); ++p) {
      const std::size_t count = model->parameters()[p].element_count();
      EXPECT_TRUE(
          place_parameter(*model, layout, p, std::span(weights).subspan(first, count), bytes));
      first += count;
    }
    return bytes;
  }
  std::unique_ptr<Decoder> whole(ops::WeightFormat format, const DecoderOptions& options) {
    programs.push_back(*model->program(*backend, 1));
    Program& program = *programs.back();
    if (format == ops::WeightFormat::fp32)
      EXPECT_TRUE(program.load(weights));
    else
      EXPECT_TRUE(program.load_image(format, image_of(*model->weight_layout(format))));
    return *make_decoder(*model, program, options);
  }
  Parts parts(ops::WeightFormat format, std::size_t count, const DecoderOptions& options) {
    auto made = model->parts(format, count);
    EXPECT_TRUE(made) << made.error().message();
    plan = *std::move(made);
    Parts all;
    for (const ModelPart& one : plan) {
      programs.push_back(*model->program(*backend, 1));
      auto part = programs.back()->part(one, image_of(one.layout), options);
      EXPECT_TRUE(part) << part.error().message();
      all.push_back(*std::move(part));
    }
    return all;
  }
  std::unique_ptr<Decoder> joined(Parts all) {
    std::unique_ptr<DecoderPart> first = std::move(all.front());
    all.erase(all.begin());
    std::unique_ptr<PartsBehind> behind;
    if (!all.empty()) behind = std::make_unique<Others>(std::move(all));
    return decoder_of(std::move(first), std::move(behind));
  }
};

// The scores of passes that read texts in chunks of many sizes, beside each other.
std::vector<std::vector<float>> read_all(const Model& model, Decoder& decoder) {
  constexpr std::size_t kTexts = 4, kRows = 24;
  std::vector<std::vector<Token>> texts(kTexts);
  std::vector<std::vector<std::int32_t>> pages(kTexts);
  for (std::int32_t page = 0; static_cast<std::size_t>(page) < decoder.pages(); ++page)
    pages[static_cast<std::size_t>(page) % kTexts].push_back(page);
  for (std::size_t text = 0; text < kTexts; ++text)
    for (std::size_t at = 0; at < 20 + 15 * text; ++at)
      texts[text].push_back(static_cast<Token>(mix(text, at) % model.vocabulary()));
  std::vector<std::size_t> read(kTexts);
  std::vector<std::vector<float>> told;
  for (std::uint64_t pass = 0; pass < 60; ++pass) {
    std::vector<TextPart> parts;
    std::size_t room = kRows, wanted = 0;
    for (std::size_t text = 0; text < kTexts; ++text) {
      const std::uint64_t draw = mix(pass, 100 + text);
      const std::size_t count =
          std::min({room, texts[text].size() - read[text], static_cast<std::size_t>(draw % 9)});
      if (count == 0) continue;
      const bool wants = draw / 9 % 3 > 0;
      parts.push_back({.tokens = std::span(texts[text]).subspan(read[text], count),
                       .position = read[text],
                       .pages = pages[text],
                       .scored = wants ? std::size_t{1} : 0});
      read[text] += count;
      room -= count;
      wanted += wants ? 1 : 0;
    }
    std::vector<float> scores(wanted * model.vocabulary());
    const auto done = decoder.read(parts, scores);
    EXPECT_TRUE(done) << done.error().message();
    told.push_back(std::move(scores));
  }
  EXPECT_EQ(read[kTexts - 1], texts[kTexts - 1].size());
  return told;
}

class DecoderPartsTest : public ::testing::TestWithParam<Named> {};

TEST_P(DecoderPartsTest, give_the_bits_of_the_whole_model) {
  const DecoderOptions options{.texts = 4, .rows = 24};
  Fixture fixture(GetParam());
  const auto whole = fixture.whole(GetParam().format, options);
  const auto expected = read_all(*fixture.model, *whole);
  for (const std::size_t count : {1, 2, 3}) {
    const auto decoder = fixture.joined(fixture.parts(GetParam().format, count, options));
    EXPECT_EQ(*decoder->ready(), count == 1 ? 0u : 7u);
    EXPECT_EQ(read_all(*fixture.model, *decoder), expected) << count << " parts";
  }
}

TEST_P(DecoderPartsTest, have_all_weights_together_and_no_more_than_they_read) {
  Fixture fixture(GetParam());
  const std::size_t all = fixture.model->weight_layout(GetParam().format)->bytes;
  for (const std::size_t count : {2, 3}) {
    const auto plan = *fixture.model->parts(GetParam().format, count);
    ASSERT_EQ(plan.size(), count);
    std::vector<int> readers(fixture.model->parameters().size());
    std::size_t most = 0;
    for (std::size_t at = 0; at < count; ++at) {
      EXPECT_EQ(plan[at].first_stage, at == 0 ? 0 : plan[at - 1].end_stage);
      EXPECT_EQ(plan[at].is_first(), at == 0);
      EXPECT_EQ(plan[at].is_last(), at + 1 == count);
      most = std::max(most, plan[at].layout.bytes);
      for (std::size_t p = 0; p < readers.size(); ++p)
        if (plan[at].layout.places[p].bytes > 0) ++readers[p];
    }
    // A table that is read as an embedding and again for the scores is at both ends.
    EXPECT_EQ(std::ranges::count(readers, 0), 0);
    EXPECT_LE(std::ranges::count_if(readers, [](int one) { return one > 1; }), 1);
    EXPECT_LT(most, all * 2 / 3) << count << " parts of " << all;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DecoderPartsTest, ::testing::ValuesIn(kModels),
                         [](const auto& info) {
                           return std::string(info.param.kind) + "_" + std::to_string(info.index) +
                                  "_" + std::string(ops::to_string(info.param.format));
                         });

TEST(DecoderParts, are_as_many_as_the_model_has_stages) {
  Fixture fixture(kModels[0]);
  EXPECT_EQ(fixture.model->parts(ops::WeightFormat::fp32, 0).error().code,
            ErrorCode::invalid_argument);
  // Three blocks, which can be cut in the middle too, and what comes before and behind them.
  EXPECT_TRUE(fixture.model->parts(ops::WeightFormat::fp32, 8));
  const auto made = fixture.model->parts(ops::WeightFormat::fp32, 9);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().detail.find("1 to 8"), std::string::npos) << made.error().detail;
}

TEST(DecoderParts, refuse_rows_that_would_leave_their_memory) {
  Fixture fixture(kModels[0]);
  const auto parts = fixture.parts(ops::WeightFormat::fp32, 2, {.texts = 2, .rows = 8});
  DecoderPart& part = *parts[1];
  const DecoderExtents extents = part.extents();
  EXPECT_EQ(extents, (DecoderExtents{2, 8, 10}));
  const PassRows good{.tokens = {},
                      .positions = {0, 1, 0},
                      .texts = {0, 0, 1},
                      .pages = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
                      .chosen = {1, 2}};
  const std::size_t takes = part.is().takes, vocabulary = part.vocabulary();
  EXPECT_EQ(takes, 64u);
  std::vector<float> in(3 * takes, 0.5f), out(2 * vocabulary);
  EXPECT_TRUE(part.run(good, in, out));
  const auto refuses = [&](const char* what, auto change) {
    PassRows rows = good;
    std::vector<float> values = in, room = out;
    change(rows, values, room);
    const auto done = part.run(rows, values, room);
    ASSERT_FALSE(done) << what;
    EXPECT_EQ(done.error().code, ErrorCode::invalid_argument) << what;
  };
  refuses("no rows", [](auto& rows, auto& values, auto& room) {
    rows.positions.clear(), rows.texts.clear(), rows.chosen.clear();
    values.clear(), room.clear();
  });
  refuses("too many rows", [&](auto& rows, auto& values, auto&) {
    rows.positions.assign(9, 0), rows.texts.assign(9, 0);
    values.assign(9 * takes, 0);
  });
  refuses("tokens", [](auto& rows, auto&, auto&) { rows.tokens = {1, 2, 3}; });
  refuses("a position too far", [](auto& rows, auto&, auto&) { rows.positions[1] = kContext; });
  refuses("a position before it", [](auto& rows, auto&, auto&) { rows.positions[1] = -1; });
  refuses("a text too many", [](auto& rows, auto&, auto&) { rows.texts[0] = 2; });
  refuses("no text", [](auto& rows, auto&, auto&) { rows.texts[0] = -1; });
  refuses("a row without a text", [](auto& rows, auto&, auto&) { rows.texts.pop_back(); });
  refuses("a page too far", [](auto& rows, auto&, auto&) { rows.pages[9] = 10; });
  refuses("no page", [](auto& rows, auto&, auto&) { rows.pages[9] = -1; });
  refuses("too few pages", [](auto& rows, auto&, auto&) { rows.pages.pop_back(); });
  refuses("a row that is not there", [](auto& rows, auto&, auto&) { rows.chosen[1] = 3; });
  refuses("more than texts are chosen", [&](auto& rows, auto&, auto& room) {
    rows.chosen = {0, 1, 2};
    room.resize(3 * vocabulary);
  });
  refuses("too few numbers", [](auto&, auto& values, auto&) { values.pop_back(); });
  refuses("no room", [](auto&, auto&, auto& room) { room.pop_back(); });
  refuses("no number",
          [](auto&, auto& values, auto&) { values[5] = std::numeric_limits<float>::quiet_NaN(); });
  refuses("no end",
          [](auto&, auto& values, auto&) { values[5] = -std::numeric_limits<float>::infinity(); });
  std::vector<std::byte> short_image(part.is().layout.bytes - 64);
  EXPECT_EQ(fixture.programs.back()->part(part.is(), short_image, {}).error().code,
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace gpunode::model
