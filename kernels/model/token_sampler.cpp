#include "kernels/model/token_sampler.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/tensor/exact_math.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {

namespace {

// The best finite score, the first one of several; nothing where there is none.
std::optional<std::size_t> best_of(std::span<const float> scores) {
  std::optional<std::size_t> best;
  for (std::size_t token = 0; token < scores.size(); ++token)
    if (std::isfinite(scores[token]) && (!best || scores[token] > scores[*best])) best = token;
  return best;
}

}  // namespace

void TokenSampler::read(std::span<const Token> prompt) {
  if (options_.repetition_penalty == 1) return;
  for (const Token token : prompt) {
    const auto number = static_cast<std::size_t>(token);
    if (seen_.size() <= number) seen_.resize(number + 1);
    seen_[number] = true;
  }
}

std::span<const float> TokenSampler::penalised(std::span<const float> logits) {
  const bool counts = options_.presence_penalty != 0 || options_.frequency_penalty != 0;
  if (!counts && options_.repetition_penalty == 1) return logits;
  scores_.assign(logits.begin(), logits.end());
  if (options_.repetition_penalty != 1)
    for (std::size_t token = 0; token < std::min(seen_.size(), scores_.size()); ++token) {
      if (!seen_[token]) continue;
      const double factor = options_.repetition_penalty, score = scores_[token];
      scores_[token] = static_cast<float>(score > 0 ? score / factor : score * factor);
    }
  for (const auto& [token, times] : chosen_)
    if (static_cast<std::size_t>(token) < scores_.size())
      scores_[static_cast<std::size_t>(token)] -= static_cast<float>(
          options_.presence_penalty + options_.frequency_penalty * static_cast<double>(times));
  return scores_;
}

double TokenSampler::chance(float score, double top) const {
  return tensor::exact_exp((static_cast<double>(score) - top) / options_.temperature);
}

// Sorts the candidates as far as it keeps them.
void TokenSampler::keep_top_p(double top) {
  double total = 0;
  for (const Candidate& one : candidates_) total += chance(one.score, top);
  double kept = 0;
  std::size_t count = 0;
  for (std::size_t block = 64; count < candidates_.size(); block *= 4) {
    const auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
    const std::size_t end = std::min(count + block, candidates_.size());
    std::partial_sort(begin, candidates_.begin() + static_cast<std::ptrdiff_t>(end),
                      candidates_.end());
    for (; count < end; ++count) {
      if (count > 0 && kept >= options_.top_p * total) return candidates_.resize(count);
      kept += chance(candidates_[count].score, top);
    }
  }
}

Token TokenSampler::draw(std::span<const Candidate> from, double top, std::uint64_t number) const {
  double total = 0;
  for (const Candidate& one : from) total += chance(one.score, top);
  double left = static_cast<double>(mix(options_.seed, number) >> 11) * 0x1.0p-53 * total;
  for (const Candidate& one : from) {
    left -= chance(one.score, top);
    if (left < 0) return one.token;
  }
  return from.back().token;
}

Token TokenSampler::choose(std::span<const float> logits) {
  const std::span<const float> scores = penalised(logits);
  const auto best = best_of(scores);
  if (!best) return 0;
  const std::uint64_t number = draws_++;
  Token token = static_cast<Token>(*best);
  if (options_.temperature > 0) {
    const double top = scores[*best];
    // What has less than 2^-60 of the best one's chance would never be drawn.
    double least = top - 41.6 * options_.temperature;
    if (options_.min_p > 0)
      least = std::max(least, top + options_.temperature * tensor::exact_log(options_.min_p));
    candidates_.clear();
    for (std::size_t at = 0; at < scores.size(); ++at)
      if (std::isfinite(scores[at]) && (scores[at] >= least || at == *best))
        candidates_.push_back({scores[at], static_cast<Token>(at)});
    const auto most = static_cast<std::size_t>(options_.top_k);
    if (options_.top_k > 0 && most < candidates_.size()) {
      std::nth_element(candidates_.begin(),
                       candidates_.begin() + static_cast<std::ptrdiff_t>(most - 1),
                       candidates_.end());
      candidates_.resize(most);
    }
    if (options_.top_p < 1) keep_top_p(top);
    // In one order, whatever a sort left: that of their numbers.
    if (options_.top_k > 0 || options_.top_p < 1)
      std::ranges::sort(candidates_, {}, &Candidate::token);
    token = draw(candidates_, top, number);
  }
  if (options_.presence_penalty != 0 || options_.frequency_penalty != 0) ++chosen_[token];
  read(std::span(&token, 1));
  return token;
}

}  // namespace gpunode::model
