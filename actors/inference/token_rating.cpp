#include "actors/inference/token_rating.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/tensor/exact_math.hpp"

namespace gpunode::inference {
namespace {

// The best `count` finite ones, in order.
std::vector<model::Token> best_of(std::span<const float> scores, std::size_t count) {
  const auto is_better = [&](model::Token one, model::Token other) {
    const float a = scores[static_cast<std::size_t>(one)],
                b = scores[static_cast<std::size_t>(other)];
    return a != b ? a > b : one < other;
  };
  std::vector<model::Token> best;  // a heap, the worst of them at its front
  for (std::size_t at = 0; count > 0 && at < scores.size(); ++at) {
    const auto token = static_cast<model::Token>(at);
    if (!std::isfinite(scores[at])) continue;
    if (best.size() == count) {
      if (!is_better(token, best.front())) continue;
      std::ranges::pop_heap(best, is_better);
      best.pop_back();
    }
    best.push_back(token);
    std::ranges::push_heap(best, is_better);
  }
  std::ranges::sort(best, is_better);
  return best;
}

}  // namespace

TokenReport rate_token(std::span<const float> scores, model::Token token, std::size_t likely,
                       const tokenizer::Tokenizer& tokenizer) {
  const float top = tensor::largest_finite(scores);
  thread_local std::vector<float> chances;  // by that of the best one
  chances.resize(scores.size());
  tensor::exact_chances(scores, top, 1, 0, chances);
  const double norm = static_cast<double>(top) + tensor::exact_log(tensor::exact_sum(chances));
  const auto rated = [&](model::Token one) {
    RatedToken made{tokenizer.bytes_of(one), {}};
    const float score = scores[static_cast<std::size_t>(one)];
    if (std::isfinite(score))
      made.log_probability = static_cast<float>(std::min(0.0, score - norm));
    return made;
  };
  TokenReport report{.token = rated(token), .likely = {}};
  for (const model::Token one : best_of(scores, likely)) report.likely.push_back(rated(one));
  return report;
}

}  // namespace gpunode::inference
