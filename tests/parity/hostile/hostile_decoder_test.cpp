// Texts that are continued on a device that notes its work: what was noted of a pass is made again when a
// pass has as many rows, wherever these stand, and the scores have the CPU's bits.
#include <gtest/gtest.h>

#include <set>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/decoder.hpp"
#include "kernels/model/model_code.hpp"
#include "kernels/model/registry.hpp"
#include "kernels/ops/lane.hpp"
#include "kernels/tensor/buffer.hpp"
#include "runtime/base/rng.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"

namespace gpunode::model {
namespace {

constexpr std::size_t kTexts = 4, kRows = 60, kContext = 96;

// Texts of random numbers, read by random pieces: some of each, some texts alone, some begun anew.
class Reader {
 public:
  Reader(const Model& model, Program& program)
      : model_(model),
        decoder_(std::move(*make_decoder(
            model, program, {.texts = kTexts, .rows = kRows, .independent_rows = true}))),
        pages_(kTexts) {
    for (std::size_t page = 0; page < decoder_->pages(); ++page)
      pages_[page % kTexts].push_back(static_cast<std::int32_t>(page));
  }

  std::vector<float> pass(std::uint64_t number) {
    std::vector<TextPart> parts;
    std::vector<std::vector<Token>> tokens(kTexts);
    std::size_t rows = 0;
    for (std::size_t text = 0; text < kTexts; ++text) {
      const std::uint64_t draw = mix(number, text);
      if (draw % 3 == 0 && number % 4 > 0) continue;
      const std::size_t count = draw % 2 ? 1 : 1 + draw / 3 % (kRows / kTexts);
      if (read_[text] + count > kContext) read_[text] = 0;
      for (std::size_t at = 0; at < count; ++at)
        tokens[text].push_back(static_cast<Token>(mix(draw, at) % model_.vocabulary()));
      parts.push_back({.tokens = tokens[text], .position = read_[text], .pages = pages_[text]});
      read_[text] += count;
      rows += count;
    }
    std::vector<float> scores(parts.size() * model_.vocabulary());
    const auto done = decoder_->read(parts, scores);
    EXPECT_TRUE(done) << done.error().message();
    forms_.insert({rows, parts.size()});
    return scores;
  }
  std::size_t forms() const { return forms_.size(); }

 private:
  const Model& model_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<std::vector<std::int32_t>> pages_;
  std::vector<std::size_t> read_ = std::vector<std::size_t>(kTexts);
  std::set<std::pair<std::size_t, std::size_t>> forms_;  // rows and texts of a pass
};

class HostileDecoder : public ::testing::TestWithParam<const char*> {};

TEST_P(HostileDecoder, does_again_what_was_noted_and_has_the_bits_of_a_cpu) {
  const auto model = *make_model(GetParam(), {{"layers", "2"},
                                              {"heads", "2"},
                                              {"channels", "32"},
                                              {"vocabulary", "50"},
                                              {"context", std::to_string(kContext)}});
  std::vector<float> weights(model->parameter_count());
  model->initialise(3, weights);
  const auto host = cpu::open_backend();
  const auto device = std::move(*hostile::open_backend({}));
  const auto plain = std::move(*make_program(*model, *host, 1)),
             noted = std::move(*make_program(*model, *device, 1));
  ASSERT_TRUE(plain->load(weights));
  tensor::BufferPool pool(device->memory(), device->capabilities().memory_bytes);
  auto lane = ops::Lane::open(*device, pool);
  ASSERT_TRUE(lane);
  const auto placed = ops::place(*lane, pool, std::span<const float>(weights));
  ASSERT_TRUE(placed);
  ASSERT_TRUE(noted->load({placed->as<const float>(), weights.size()}));
  Reader expected(*model, *plain), reader(*model, *noted);
  for (std::uint64_t number = 0; number < 400; ++number)
    ASSERT_EQ(reader.pass(number), expected.pass(number)) << "pass " << number;
  const hostile::Report report = device->report();
  EXPECT_EQ(report.first_error, "");
  EXPECT_GT(report.noted, 20u);
  EXPECT_GT(report.replayed, report.noted);
  EXPECT_GT(reader.forms(), 64u) << "some graphs are kept no more";
}

INSTANTIATE_TEST_SUITE_P(Models, HostileDecoder, ::testing::Values("gpt", "llama"),
                         [](const auto& given) { return std::string(given.param); });

}  // namespace
}  // namespace gpunode::model
