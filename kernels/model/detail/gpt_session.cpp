// A text being continued by GPT: keys and values of all positions so far stay in a cache, so each
// new token costs one pass over the weights.
#include <algorithm>

#include "kernels/model/detail/gpt_program.hpp"

namespace gpunode::model {
namespace {

class GptSession final : public Session {
 public:
  GptSession(GptProgram& program, std::unique_ptr<tensor::Stream> stream)
      : program_(program), stream_(std::move(stream)), workspace_(program.pool()) {}

  Result<void> allocate() {
    const GptConfig& config = program_.model().shape();
    Carver count(nullptr);
    carve(count);
    auto memory = program_.pool().take(count.used_bytes());
    if (!memory) return memory.error().within("a generating session");
    memory_ = std::move(*memory);
    Carver carver(memory_.as<float>());
    carve(carver);
    return workspace_.reserve(static_cast<std::size_t>(ops::padded_row(config.context)) *
                              sizeof(float));
  }

  std::size_t position() const override { return position_; }
  std::size_t capacity() const override {
    return static_cast<std::size_t>(program_.model().shape().context);
  }
  void reset() override { position_ = 0; }

  Result<void> append(std::span<const Token> tokens, std::span<float> logits_out) override {
    const GptConfig& config = program_.model().shape();
    if (auto ready = require_loaded(program_); !ready) return ready;
    if (tokens.empty() || logits_out.size() != static_cast<std::size_t>(config.vocabulary))
      return {ErrorCode::invalid_argument, "no tokens, or room for the wrong number of scores"};
    for (Token token : tokens)
      if (token < 0 || token >= config.vocabulary)
        return {ErrorCode::invalid_argument, "token " + std::to_string(token) +
                                                 " is outside the vocabulary of " +
                                                 std::to_string(config.vocabulary)};
    if (tokens.size() > capacity() - position_)
      return {ErrorCode::resource_exhausted,
              std::to_string(position_) + " of " + std::to_string(capacity()) +
                  " positions are taken: reset and read the newer part again"};
    if (auto done = read(tokens, logits_out); !done) return done;
    position_ += tokens.size();
    return {};
  }

 private:
  void carve(Carver& carver) {
    const GptConfig& config = program_.model().shape();
    activations_ = carve_session(carver, config, config.context);
    keys_.clear();
    values_.clear();
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      keys_.push_back(carver.take({config.context, config.channels}));
      values_.push_back(carver.take({config.context, config.channels}));
    }
  }

  // The same activations, but of `rows` tokens only.
  GptBlockActivations shortened(std::int64_t rows) const {
    const GptConfig& config = program_.model().shape();
    const std::int64_t C = config.channels, F = config.expansion * C;
    GptBlockActivations block = activations_.block;
    for (tensor::Tensor* stream :
         {&block.norm1, &block.attended, &block.residual1, &block.norm2, &block.residual2})
      stream->shape = {rows, C};
    for (tensor::Tensor* scalar : {&block.mean1, &block.rstd1, &block.mean2, &block.rstd2})
      scalar->shape = {rows};
    block.qkv.shape = {rows, 3 * C};
    block.expanded.shape = block.activated.shape = {rows, F};
    return block;
  }

  Result<void> read(std::span<const Token> tokens, std::span<float> logits_out) {
    const GptConfig& config = program_.model().shape();
    const GptViews<const float>& weights = program_.weights();
    const ops::Operations& ops = program_.backend().operations();
    const auto rows = static_cast<std::int64_t>(tokens.size());
    const std::int64_t C = config.channels;
    OperationSequence sequence(ops, *stream_, workspace_);
    const tensor::Tensor embedded{activations_.embedded.data, {1, rows, C}};
    sequence.run(ops.embedding, {.tokens = {tokens.data(), {1, rows}},
                                 .token_table = weights.token_table,
                                 .position_table = weights.position_table,
                                 .first = static_cast<std::int64_t>(position_),
                                 .x = embedded});
    // The stream leaves a block in the place where it entered: all blocks share their activations.
    GptBlockActivations block = shortened(rows);
    block.residual2 = embedded;
    for (std::size_t layer = 0; layer < weights.blocks.size(); ++layer) {
      forward_to_attention(sequence, weights.blocks[layer], embedded, block);
      sequence.run(ops.attention_cached, {.qkv = block.qkv,
                                          .heads = config.heads,
                                          .position = static_cast<std::int64_t>(position_),
                                          .keys = keys_[layer],
                                          .values = values_[layer],
                                          .out = block.attended});
      forward_from_attention(sequence, weights.blocks[layer], embedded, block);
      forward_through_network(sequence, weights.blocks[layer], block);
    }
    sequence.run(ops.layernorm, {.x = {embedded.data + (rows - 1) * C, {1, C}},
                                 .weight = weights.norm_weight,
                                 .bias = weights.norm_bias,
                                 .y = activations_.norm,
                                 .mean = activations_.mean,
                                 .rstd = activations_.rstd});
    linear(sequence, activations_.norm, weights.token_table, {},
           {logits_out.data(), {1, config.vocabulary}});
    return sequence.finish();
  }

  GptProgram& program_;
  std::unique_ptr<tensor::Stream> stream_;
  tensor::Workspace workspace_;
  tensor::Buffer memory_;
  GptSessionActivations activations_;
  std::vector<tensor::Tensor> keys_, values_;  // (T, C) a layer
  std::size_t position_ = 0;
};

}  // namespace

Result<std::unique_ptr<Session>> open_gpt_session(GptProgram& program) {
  auto stream = program.backend().open_stream();
  if (!stream) return stream.error();
  auto session = std::make_unique<GptSession>(program, std::move(*stream));
  if (auto done = session->allocate(); !done) return done.error();
  return std::unique_ptr<Session>(std::move(session));
}

}  // namespace gpunode::model
