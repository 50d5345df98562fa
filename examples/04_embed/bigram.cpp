// The arithmetic of the bigram. Each slice is computed by one thread in sample order, so that its
// bits depend on weights and samples alone: that is what the sum over nodes rests on.
#include "bigram.hpp"

#include <kernels/model/registry.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace embed {
namespace {

using gpunode::ErrorCode, gpunode::Result, gpunode::model::Evaluation, gpunode::model::LossSum;
using gpunode::model::Sample, gpunode::model::Token;
constexpr std::size_t kBytes = 256;

class BigramSession final : public gpunode::model::Session {
 public:
  explicit BigramSession(const std::vector<float>& scores) : scores_(scores) {}
  std::size_t position() const override { return position_; }
  std::size_t capacity() const override { return 1u << 20; }
  void reset() override { position_ = 0; }

  Result<void> append(std::span<const Token> tokens, std::span<float> logits_out) override {
    if (position_ + tokens.size() > capacity())
      return {ErrorCode::resource_exhausted, "the text is full: reset the session"};
    if (tokens.empty() || logits_out.size() != kBytes || tokens.back() < 0 || tokens.back() > 255)
      return {ErrorCode::invalid_argument, "the bigram needs a byte to start from"};
    position_ += tokens.size();
    const float* row = &scores_[static_cast<std::size_t>(tokens.back()) * kBytes];
    std::copy_n(row, kBytes, logits_out.begin());
    return {};
  }

 private:
  const std::vector<float>& scores_;  // (256, 256), the program's
  std::size_t position_ = 0;
};

class BigramProgram final : public gpunode::model::Program {
 public:
  explicit BigramProgram(std::size_t context) : context_(context), scores_(kBytes * kBytes) {}

  Result<void> load(std::span<const float> parameters) override {
    std::copy(parameters.begin(), parameters.end(), scores_.begin());
    return {};
  }
  Result<LossSum> gradient(int, std::span<const Sample> samples, std::span<float> sum) override {
    std::fill(sum.begin(), sum.end(), 0.0f);
    const auto done = run(samples, sum.data());
    return done ? Result(LossSum{float(done->loss), float(done->weight)}) : done.error();
  }
  Result<Evaluation> evaluate(int, std::span<const Sample> samples) override {
    return run(samples, nullptr);
  }
  Result<std::unique_ptr<gpunode::model::Session>> session() override {
    return {std::make_unique<BigramSession>(scores_)};
  }

 private:
  // Loss and how many bytes were predicted; adds softmax(row) - onehot(next) to each row met, if `gradient` is given.
  Result<Evaluation> run(std::span<const Sample> samples, float* gradient) const {
    double loss = 0;
    std::array<float, kBytes> weight;
    for (const Sample& sample : samples) {
      if (sample.bytes.size() != context_ + 1)
        return {ErrorCode::invalid_argument, "a sample has the wrong length"};
      for (std::size_t at = 0; at < context_; ++at) {
        const float* row = &scores_[sample.bytes[at] * kBytes];
        const float top = *std::max_element(row, row + kBytes);
        float total = 0;
        for (std::size_t c = 0; c < kBytes; ++c) total += weight[c] = std::exp(row[c] - top);
        const std::size_t next = sample.bytes[at + 1];
        loss += std::log(total) + top - row[next];
        if (!gradient) continue;
        float* out = gradient + sample.bytes[at] * kBytes;
        for (std::size_t c = 0; c < kBytes; ++c) out[c] += weight[c] / total;
        out[next] -= 1.0f;
      }
    }
    return Evaluation{loss, static_cast<double>(samples.size() * context_)};
  }
  std::size_t context_;
  std::vector<float> scores_;
};
}  // namespace

Bigram::Bigram(std::size_t context) : context_(context) {
  specs_.push_back({.name = "scores", .shape = {256, 256}});
}

Result<std::unique_ptr<gpunode::model::Model>> Bigram::create(
    const gpunode::model::Settings& settings) {
  if (auto known = gpunode::model::reject_unknown(settings, {"context"}); !known)
    return known.error();
  auto context = gpunode::model::take_integer(settings, "context", {64, 1, 65536});
  if (!context) return context.error();
  return {std::make_unique<Bigram>(static_cast<std::size_t>(*context))};
}

gpunode::model::Settings Bigram::config() const {
  return {{"context", std::to_string(context_)}};
}

void Bigram::initialise(std::uint64_t, std::span<float> parameters) const {
  std::fill(parameters.begin(), parameters.end(), 0.0f);
}

std::uint64_t Bigram::working_bytes(int, std::size_t) const {
  return parameter_count() * sizeof(float);
}

Result<std::unique_ptr<gpunode::model::Program>> Bigram::program(gpunode::ops::Backend&,
                                                                 int) const {
  return {std::make_unique<BigramProgram>(context_)};
}

}  // namespace embed
