// BERT: a bidirectional reader of bytes or tokens that learns by filling gaps. Embeddings of tokens,
// positions and segments, post-norm blocks of attention and a GELU network, and a head over the
// vocabulary that is tied to the token table. Its pooler, which only sentence pairs would teach, is
// left out. A sample is `context` tokens; what is hidden of them is drawn, see read().
// Source: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2019.
#pragma once

#include "kernels/model/graph_model.hpp"

namespace gpunode::model {

struct BertConfig {
  std::int64_t layers = 4;        // L
  std::int64_t heads = 4;         // H, divides channels
  std::int64_t channels = 128;    // C
  std::int64_t hidden = 512;      // F, inner width of the network
  std::int64_t context = 64;      // T, tokens seen at once
  std::int64_t vocabulary = 257;  // V, tokens 0 .. V-1; up to 257 are bytes of a text and a mask
  std::int64_t segments = 2;      // S
  double epsilon = 1e-12;         // of the normalisations
  std::int64_t mask = -1;         // the token that hides others; -1: V-1
  std::int64_t mask_seed = 1;     // another one hides other tokens
  // Tokens with a meaning of their own, which are never hidden; -1: there is none.
  std::int64_t padding = -1;    // at the end of a sample: not read
  std::int64_t opening = -1;    // begins a sample
  std::int64_t separator = -1;  // ends a segment
};

class Bert final : public GraphModel {
 public:
  // Fails with: invalid_argument (heads do not divide channels, a token outside the vocabulary).
  static Result<std::unique_ptr<Bert>> open(BertConfig config);

  std::string kind() const override { return "bert"; }
  std::string name() const override;
  Settings config() const override;
  std::size_t vocabulary() const override { return static_cast<std::size_t>(config_.vocabulary); }
  std::int64_t context() const override { return config_.context; }
  bool generates() const override { return false; }
  std::vector<SampleField> sample_fields() const override;
  std::size_t tokens_per_sample() const override {
    return static_cast<std::size_t>(config_.context);
  }
  // Weights N(0, 0.02), biases 0, norm weights 1.
  void forward(graph::Builder& builder) const override;
  // Fills tokens, segments, lengths and targets. Of the tokens that mean something 15 % are drawn,
  // by mask_seed, the sample's number and the position alone; of these 80 % are hidden, 10 % become
  // any token, 10 % stay. They are the targets; other positions have the target -1, and no loss.
  Result<void> read(const Sample& sample, std::span<const InputPart> inputs) const override;
  Result<void> read_text(std::span<const Token> text,
                         std::span<const InputPart> inputs) const override;

 private:
  explicit Bert(BertConfig config) : config_(config) {}
  std::int64_t mask() const { return config_.mask < 0 ? config_.vocabulary - 1 : config_.mask; }
  bool reads_bytes() const { return config_.vocabulary <= 257; }
  bool is_special(std::int32_t token) const {
    return token == config_.padding || token == config_.opening || token == config_.separator;
  }
  // What the model shall read in place of the token at this position of the sample; nothing where
  // it is not drawn.
  std::optional<std::int32_t> drawn(std::uint64_t sample, std::size_t position,
                                    std::int32_t token) const;

  BertConfig config_;
};

// Keys: the fields of BertConfig.
Result<std::unique_ptr<Model>> make_bert(const Settings& settings);

}  // namespace gpunode::model
