#include "kernels/model/token_sampler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/tensor/exact_math.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {
namespace {

// Chances from 2^-60 to 1 by the upper bits of their float32: eight buckets for each power of two.
constexpr std::uint32_t kBuckets = 60 * 8 + 1;
std::uint32_t bucket_of(float chance) {
  constexpr std::uint32_t kShift = 20, kFirst = (127 - 60) * 8;
  const std::uint32_t upper = std::bit_cast<std::uint32_t>(chance) >> kShift;
  return std::min(upper > kFirst ? upper - kFirst : 0, kBuckets - 1);
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

void TokenSampler::find_chances(std::span<const float> scores, float top) {
  // What has less than 2^-60 of the best one's chance would never be drawn.
  const double least = std::max(0x1p-60, options_.min_p);
  chances_.resize(scores.size());
  const double scale =
      std::min<double>(1 / options_.temperature, std::numeric_limits<float>::max());
  tensor::exact_chances(scores, top, static_cast<float>(scale), static_cast<float>(least),
                        chances_);
}

// The best ones so far are halved as often as they are twice as many.
void TokenSampler::keep_top_k(std::span<const float> scores) {
  const auto most = static_cast<std::size_t>(options_.top_k);
  const auto halve = [&] {
    if (candidates_.size() <= most) return;
    const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(most - 1);
    std::nth_element(candidates_.begin(), last, candidates_.end());
    candidates_.resize(most);
  };
  candidates_.clear();
  float worst = 0;  // chance; one that has less is none of them
  for (std::size_t at = 0; at < scores.size(); ++at) {
    if (chances_[at] <= 0 || chances_[at] < worst) continue;
    candidates_.push_back({scores[at], static_cast<Token>(at), chances_[at]});
    if (candidates_.size() < 2 * most) continue;
    halve();
    worst = candidates_.back().chance;
  }
  halve();
  std::ranges::fill(chances_, 0.0f);
  for (const Candidate& one : candidates_)
    chances_[static_cast<std::size_t>(one.token)] = one.chance;
}

// Of all tokens, by their chance in buckets of an eighth of a binade each, the upper ones are kept whole; of the
// bucket in which enough are together the best.
void TokenSampler::keep_top_p(std::span<const float> scores) {
  double sums[kBuckets] = {};
  for (const float chance : chances_)
    if (chance > 0) sums[bucket_of(chance)] += static_cast<double>(chance);
  const double wanted = options_.top_p * tensor::exact_sum(chances_);
  double kept = 0;
  std::uint32_t bucket = kBuckets - 1;
  for (; bucket > 0 && kept + sums[bucket] < wanted; --bucket) kept += sums[bucket];
  candidates_.clear();
  for (std::size_t at = 0; at < scores.size(); ++at) {
    float& chance = chances_[at];
    if (chance <= 0 || bucket_of(chance) > bucket) continue;
    if (bucket_of(chance) == bucket)
      candidates_.push_back({scores[at], static_cast<Token>(at), chance});
    chance = 0;
  }
  std::sort(candidates_.begin(), candidates_.end());
  for (const Candidate& one : candidates_) {
    if (kept > 0 && kept >= wanted) return;
    kept += static_cast<double>(one.chance);
    chances_[static_cast<std::size_t>(one.token)] = one.chance;
  }
}

// By blocks, so that few of them are looked through.
Token TokenSampler::draw(std::uint64_t number) {
  constexpr std::size_t kBlock = 256;
  const std::span<const float> all = chances_;
  const auto block_at = [&](std::size_t at) {
    return all.subspan(at, std::min(kBlock, all.size() - at));
  };
  sums_.clear();
  for (std::size_t at = 0; at < all.size(); at += kBlock)
    sums_.push_back(tensor::exact_sum(block_at(at)));
  const double total = std::accumulate(sums_.begin(), sums_.end(), 0.0);
  double left = static_cast<double>(mix(options_.seed, number) >> 11) * 0x1.0p-53 * total;
  std::span<const float> block;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    if (sums_[i] > 0) block = block_at(i * kBlock);
    if (left < sums_[i]) break;
    left -= sums_[i];
  }
  std::size_t drawn = 0;
  for (std::size_t i = 0; i < block.size() && left >= 0; ++i) {
    if (block[i] > 0) drawn = i;
    left -= static_cast<double>(block[i]);
  }
  return static_cast<Token>(block.data() - all.data()) + static_cast<Token>(drawn);
}

Token TokenSampler::choose(std::span<const float> logits) {
  const std::span<const float> scores = penalised(logits);
  const float top = tensor::largest_finite(scores);
  if (!std::isfinite(top)) return 0;
  const std::uint64_t number = draws_++;
  auto token = static_cast<Token>(std::ranges::find(scores, top) - scores.begin());
  if (options_.temperature > 0) {
    find_chances(scores, top);
    if (options_.top_k > 0) keep_top_k(scores);
    if (options_.top_p < 1) keep_top_p(scores);
    token = draw(number);
  }
  if (options_.presence_penalty != 0 || options_.frequency_penalty != 0) ++chosen_[token];
  read(std::span(&token, 1));
  return token;
}

}  // namespace gpunode::model
