#include "actors/inference/text_encoder.hpp"

#include <cmath>

#include "kernels/model/model_code.hpp"

namespace gpunode::inference {
namespace {

// rows (count, width) to one of length 1; nothing, where it has none.
Result<std::vector<float>> pooled(std::span<const float> rows, std::size_t width,
                                  checkpoint::Pooling pooling) {
  const std::size_t count = pooling == checkpoint::Pooling::first ? 1 : rows.size() / width;
  std::vector<double> sums(width);
  for (std::size_t row = 0; row < count; ++row)
    for (std::size_t i = 0; i < width; ++i) sums[i] += double{rows[row * width + i]};
  double square = 0;
  for (const double sum : sums) square += sum * sum;
  const double length = std::sqrt(square);
  if (!std::isfinite(length) || length == 0)
    return Error{ErrorCode::internal,
                 "the model's numbers for the text have no direction: its weights are wrong"};
  std::vector<float> values(width);
  for (std::size_t i = 0; i < width; ++i) values[i] = static_cast<float>(sums[i] / length);
  return values;
}

}  // namespace

Result<std::unique_ptr<TextEncoder>> TextEncoder::open(model::Program& program, Options options) {
  auto encoder = model::make_encoder(program);
  if (!encoder) return encoder.error();
  return std::unique_ptr<TextEncoder>(new TextEncoder(std::move(options), *std::move(encoder)));
}

Result<TextVector> TextEncoder::represent(std::string_view text) {
  if (text.empty())
    return Error{ErrorCode::invalid_argument, "the text is empty: there is nothing to represent"};
  const auto tokens =
      options_.tokenizer->encode(text, {.surrounded = true, .special_tokens = false});
  if (!tokens) return tokens.error();
  return represent(*tokens);
}

Result<TextVector> TextEncoder::represent(std::span<const model::Token> tokens) {
  if (tokens.size() > encoder_->context())
    return Error{ErrorCode::invalid_argument,
                 "the text has " + std::to_string(tokens.size()) + " tokens, and the model reads " +
                     std::to_string(encoder_->context()) + ": give it in parts"};
  rows_.resize(tokens.size() * width());
  if (auto done = encoder_->read(tokens, rows_); !done) return done.error();
  auto values = pooled(rows_, width(), options_.pooling);
  if (!values) return values.error();
  return TextVector{*std::move(values), tokens.size()};
}

}  // namespace gpunode::inference
