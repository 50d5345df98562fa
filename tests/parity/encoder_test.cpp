// Texts as vectors: what a text gives is its own affair, whatever was read before it and by however many
// threads, and follows from the numbers that weights in other formats stand for.
#include "kernels/model/encoder.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "kernels/model/weight_layout.hpp"
#include "kernels/tensor/buffer.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {
namespace {

constexpr std::size_t kContext = 80, kWidth = 64;

struct Ready {
  std::unique_ptr<ops::Backend> backend;
  std::unique_ptr<Model> model = *make_model("bert", {{"layers", "2"},
                                                      {"heads", "4"},
                                                      {"channels", std::to_string(kWidth)},
                                                      {"hidden", "96"},
                                                      {"context", std::to_string(kContext)},
                                                      {"vocabulary", "300"},
                                                      {"segments", "2"},
                                                      {"mask", "5"},
                                                      {"padding", "0"},
                                                      {"separator", "7"}});
  std::unique_ptr<Program> program;
  std::vector<float> weights = std::vector<float>(model->parameter_count());

  explicit Ready(int threads = 1) : backend(cpu::open_backend({.threads = threads})) {
    program = *model->program(*backend, 1);
    model->initialise(4, weights);
    EXPECT_TRUE(program->load(weights));
  }
  std::vector<float> read(Encoder& encoder, const std::vector<Token>& text) {
    std::vector<float> rows(text.size() * kWidth);
    EXPECT_TRUE(encoder.read(text, rows));
    return rows;
  }
};

std::vector<Token> text_of(std::uint64_t seed, std::size_t length) {
  std::vector<Token> text(length);
  for (std::size_t at = 0; at < length; ++at) text[at] = static_cast<Token>(mix(seed, at) % 300);
  return text;
}

TEST(Encoder, gives_a_text_the_same_numbers_whatever_it_read_before) {
  Ready one, other(3);
  const auto encoder = *one.program->encoder(), team = *other.program->encoder();
  EXPECT_EQ(encoder->context(), kContext);
  std::vector<std::vector<float>> first;
  for (std::size_t length = 1; length <= kContext; length += 13)
    first.push_back(one.read(*encoder, text_of(length, length)));
  for (std::size_t length = kContext / 13 * 13 + 1, at = first.size(); at-- > 0; length -= 13) {
    EXPECT_EQ(one.read(*encoder, text_of(length, length)), first[at]);
    EXPECT_EQ(other.read(*team, text_of(length, length)), first[at]) << "by a team";
  }
}

TEST(Encoder, sees_the_whole_text_from_each_place) {
  Ready ready;
  const auto encoder = *ready.program->encoder();
  std::vector<Token> text = text_of(1, 20);
  const std::vector<float> before = ready.read(*encoder, text);
  text.back() = text.back() == 9 ? 10 : 9;
  const std::vector<float> after = ready.read(*encoder, text);
  for (std::size_t row = 0; row < text.size(); ++row) {
    double moved = 0;
    for (std::size_t i = 0; i < kWidth; ++i)
      moved += std::fabs(after[row * kWidth + i] - before[row * kWidth + i]);
    EXPECT_GT(moved, 0) << row;
  }
}

TEST(Encoder, reads_by_the_numbers_that_its_weights_stand_for) {
  for (const ops::WeightFormat format : ops::kWeightFormats) {
    Ready ready;
    const WeightLayout layout = *ready.model->weight_layout(format);
    const tensor::Buffer image =
        *tensor::BufferPool(tensor::host_memory(), 1 << 30).take(layout.bytes);
    const MutableByteView bytes(image.as<std::byte>(), layout.bytes);
    std::size_t first = 0;
    for (std::size_t at = 0; at < layout.places.size(); ++at) {
      const WeightLayout::Place& place = layout.places[at];
      const std::span<float> values =
          std::span(ready.weights).subspan(first, ready.model->parameters()[at].element_count());
      ASSERT_TRUE(place_parameter(*ready.model, layout, at, values, bytes));
      const auto inner = static_cast<std::size_t>(place.inner);
      const std::size_t row = ops::weight_row_bytes(place.format, place.inner);
      for (std::size_t r = 0; r * inner < values.size(); ++r)
        ops::unpack_weights(place.format, bytes.subspan(place.first + r * row, row),
                            values.subspan(r * inner, inner));
      first += values.size();
    }
    ASSERT_TRUE(ready.program->load_image(format, bytes));
    const std::vector<float> packed = ready.read(**ready.program->encoder(), text_of(2, 37));
    ASSERT_TRUE(ready.program->load(ready.weights));
    EXPECT_EQ(ready.read(**ready.program->encoder(), text_of(2, 37)), packed)
        << ops::to_string(format);
  }
}

TEST(Encoder, refuses_what_it_cannot_read) {
  Ready ready;
  const auto encoder = *ready.program->encoder();
  std::vector<float> rows((kContext + 1) * kWidth);
  const auto code = [&](const std::vector<Token>& text) {
    const auto done = encoder->read(text, std::span(rows).first(text.size() * kWidth));
    return done ? ErrorCode{} : done.error().code;
  };
  EXPECT_EQ(code({}), ErrorCode::invalid_argument);
  EXPECT_EQ(code(text_of(1, kContext + 1)), ErrorCode::invalid_argument);
  EXPECT_EQ(code({3, 300}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({-1}), ErrorCode::invalid_argument);
  EXPECT_FALSE(encoder->read(text_of(1, 3), std::span(rows).first(5)));
  EXPECT_EQ(code(text_of(1, kContext)), ErrorCode{}) << "what is right is still read";

  const auto gpt = *make_model(
      "gpt",
      {{"layers", "1"}, {"heads", "1"}, {"channels", "8"}, {"context", "4"}, {"vocabulary", "9"}});
  const auto program = *gpt->program(*ready.backend, 1);
  EXPECT_EQ(gpt->representation(), 0u);
  EXPECT_EQ(program->encoder().error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace gpunode::model
