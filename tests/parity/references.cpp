#include "tests/parity/references.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpunode::parity {

Vector64 reference_layernorm(const Vector64& x, const Vector64& weight, const Vector64& bias) {
  const std::size_t columns = weight.size();
  Vector64 y(x.size());
  for (std::size_t row = 0; row < x.size(); row += columns) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < columns; ++i) mean += x[row + i] / static_cast<double>(columns);
    for (std::size_t i = 0; i < columns; ++i)
      variance += (x[row + i] - mean) * (x[row + i] - mean) / static_cast<double>(columns);
    for (std::size_t i = 0; i < columns; ++i)
      y[row + i] = (x[row + i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i];
  }
  return y;
}

Vector64 reference_gelu(const Vector64& x) {
  Vector64 y;
  for (double v : x)
    y.push_back(
        v / 2 *
        (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v))));
  return y;
}

std::string AttentionShape::text() const {
  return shape_text({samples, length, heads, depth}) +
         (shared > 1 ? " shared " + std::to_string(shared) : "") + (causal ? "" : " full") +
         (lengths.empty() ? "" : " lengths");
}

std::vector<Vector64> reference_attention(const AttentionShape& shape, const Vector64& qkv) {
  const std::int64_t T = shape.length, H = shape.heads, K = shape.kv_heads(), D = shape.depth;
  std::vector<Vector64> results = {Vector64(static_cast<std::size_t>(shape.samples * T * H * D)),
                                   Vector64(static_cast<std::size_t>(shape.samples * H * T * 2))};
  for (std::int64_t b = 0; b < shape.samples; ++b) {
    const std::int64_t length =
        shape.lengths.empty() ? T : shape.lengths[static_cast<std::size_t>(b)];
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t t = 0; t < length; ++t) {
        // of a position's part: where head `head` begins
        const auto at = [&](std::int64_t position, std::int64_t head) {
          return &qkv[static_cast<std::size_t>((b * T + position) * shape.joined() + head * D)];
        };
        const double* query = at(t, h);
        Vector64 scores;
        for (std::int64_t s = 0; s < (shape.causal ? t + 1 : length); ++s) {
          const double* key = at(s, H + h / shape.shared);
          scores.push_back(0);
          for (std::int64_t d = 0; d < D; ++d) scores.back() += query[d] * key[d];
          scores.back() /= std::sqrt(static_cast<double>(D));
        }
        const double top = *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (double& score : scores) sum += score = std::exp(score - top);
        double* out = &results[0][static_cast<std::size_t>(((b * T + t) * H + h) * D)];
        for (std::size_t s = 0; s < scores.size(); ++s) {
          const double* value = at(static_cast<std::int64_t>(s), H + K + h / shape.shared);
          for (std::int64_t d = 0; d < D; ++d) out[d] += scores[s] / sum * value[d];
        }
        double* statistics = &results[1][static_cast<std::size_t>(((b * H + h) * T + t) * 2)];
        statistics[0] = top;
        statistics[1] = 1 / sum;
      }
  }
  return results;
}

Vector64 reference_losses(const Vector64& logits, const std::vector<std::int32_t>& targets) {
  const std::size_t columns = logits.size() / targets.size();
  Vector64 losses;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < columns; ++i) sum += std::exp(logits[row * columns + i]);
    losses.push_back(std::log(sum) -
                     logits[row * columns + static_cast<std::size_t>(targets[row])]);
  }
  return losses;
}

Vector64 differentiate(const Function64& function, std::vector<Vector64> inputs, std::size_t which,
                       const Vector64& weights, std::size_t limit) {
  Vector64 derivative(inputs[which].size(), std::numeric_limits<double>::quiet_NaN());
  const auto weighted = [&] {
    const Vector64 values = function(inputs);
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += weights[i] * values[i];
    return sum;
  };
  constexpr double kStep = 1e-5;
  // A stride that shares no factor with the common extents, so that all rows and columns are met.
  const std::size_t stride = std::max<std::size_t>(1, inputs[which].size() / limit) | 1;
  for (std::size_t place = 0; place < inputs[which].size(); place += stride) {
    double& x = inputs[which][place];
    const double middle = x;
    x = middle + kStep;
    const double above = weighted();
    x = middle - kStep;
    derivative[place] = (above - weighted()) / (2 * kStep);
    x = middle;
  }
  return derivative;
}

}  // namespace gpunode::parity
