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
    auto carved = carve_into(memory_, program_.pool(), [&](Carver& carver) {
      keys_.clear();
      values_.clear();
      for (std::int64_t layer = 0; layer < config.layers; ++layer) {
        keys_.push_back(carver.take({config.context, config.channels}));
        values_.push_back(carver.take({config.context, config.channels}));
      }
      beside_cache_ = carver;
      carve_session(carver, config, config.context);
    });
    if (!carved) return carved.error().within("a generating session");
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
    if (auto ready = program_.require_loaded(); !ready) return ready;
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
  Result<void> read(std::span<const Token> tokens, std::span<float> logits_out) {
    const GptConfig& config = program_.model().shape();
    const GptWeights& weights = program_.weights();
    const ops::Operations& ops = program_.backend().operations();
    const auto rows = static_cast<std::int64_t>(tokens.size());
    const std::int64_t C = config.channels;
    OperationSequence sequence(ops, *stream_, workspace_);
    Carver carver = beside_cache_;
    const GptActivations activations = carve_session(carver, config, rows);
    const tensor::Tensor& embedded = activations.embedded;
    sequence.run(ops.embedding, {.tokens = {tokens.data(), {1, rows}},
                                 .token_table = weights.token_table,
                                 .position_table = weights.position_table,
                                 .first = static_cast<std::int64_t>(position_),
                                 .x = embedded});
    // The stream leaves a block in the place where it entered: all blocks share their activations.
    GptBlockActivations block = activations.blocks.front();
    block.qkv.shape = {rows, 3 * C};
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
    normalise(sequence, {embedded.data + (rows - 1) * C, {1, C}}, weights.norm_weight,
              weights.norm_bias, activations.norm);
    linear(sequence, activations.norm.out, weights.token_table, {},
           {logits_out.data(), {1, config.vocabulary}});
    return sequence.finish();
  }

  GptProgram& program_;
  std::unique_ptr<tensor::Stream> stream_;
  tensor::Workspace workspace_;
  tensor::Buffer memory_;
  Carver beside_cache_{nullptr};  // divides the memory that the cache leaves, at each read
  std::vector<tensor::Tensor> keys_, values_;  // (T, C) a layer
  std::size_t position_ = 0;
};

}  // namespace

Result<std::unique_ptr<Session>> GptProgram::session() {
  auto stream = backend_.open_stream();
  if (!stream) return stream.error();
  auto session = std::make_unique<GptSession>(*this, std::move(*stream));
  if (auto done = session->allocate(); !done) return done.error();
  return std::unique_ptr<Session>(std::move(session));
}

}  // namespace gpunode::model
