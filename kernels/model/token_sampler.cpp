#include "kernels/model/token_sampler.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/tensor/exact_math.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {

Token TokenSampler::choose(std::span<const float> logits) {
  order_.clear();
  for (std::size_t token = 0; token < logits.size(); ++token)
    if (std::isfinite(logits[token])) order_.emplace_back(logits[token], static_cast<Token>(token));
  if (order_.empty()) return 0;
  const auto better = [](const auto& left, const auto& right) {
    return left.first != right.first ? left.first > right.first : left.second < right.second;
  };
  const std::uint64_t draw = draws_++;
  if (!(options_.temperature > 0))
    return std::min_element(order_.begin(), order_.end(), better)->second;
  std::sort(order_.begin(), order_.end(), better);
  if (options_.top_k > 0 && static_cast<std::size_t>(options_.top_k) < order_.size())
    order_.resize(static_cast<std::size_t>(options_.top_k));

  const double top = order_.front().first;
  const auto chance = [&](float score) {
    return tensor::exact_exp((static_cast<double>(score) - top) / options_.temperature);
  };
  double total = 0;
  for (const auto& [score, token] : order_) total += chance(score);
  double left = static_cast<double>(mix(options_.seed, draw) >> 11) * 0x1.0p-53 * total;
  for (const auto& [score, token] : order_) {
    left -= chance(score);
    if (left < 0) return token;
  }
  return order_.back().second;
}

Generator::Generator(std::unique_ptr<Session> session, std::size_t vocabulary,
                     SamplingOptions options)
    : session_(std::move(session)), sampler_(options), logits_(vocabulary) {}

Result<void> Generator::feed(std::span<const Token> tokens) {
  if (tokens.size() > session_->capacity() - session_->position()) {
    // Full: start anew with the newer half, the coming tokens included.
    window_.insert(window_.end(), tokens.begin(), tokens.end());
    const std::size_t keep = std::max<std::size_t>(1, session_->capacity() / 2);
    window_.erase(window_.begin(),
                  window_.end() - static_cast<std::ptrdiff_t>(std::min(keep, window_.size())));
    session_->reset();
    return session_->append(window_, logits_);
  }
  window_.insert(window_.end(), tokens.begin(), tokens.end());
  return session_->append(tokens, logits_);
}

Result<void> Generator::prompt(std::span<const Token> tokens) {
  static constexpr Token kNewline[] = {'\n'};
  if (tokens.empty()) tokens = kNewline;
  tokens = tokens.last(std::min(tokens.size(), session_->capacity()));
  session_->reset();
  window_.clear();
  auto done = feed(tokens);
  ready_ = done.has_value();
  return done;
}

Result<Token> Generator::next() {
  if (!ready_) return {ErrorCode::wrong_state, "a text needs a prompt first"};
  const Token token = sampler_.choose(logits_);
  if (auto done = feed(std::span(&token, 1)); !done) return done.error();
  return token;
}

}  // namespace gpunode::model
