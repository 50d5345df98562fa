#include "tests/parity/attention_reference.hpp"

#include <algorithm>
#include <cmath>

namespace gpunode::parity {
namespace {

// One sample and head of queries.
struct Head {
  const AttentionProblem& problem;
  const Vector64 &qkv, &dout;
  int sample, head;

  std::size_t joined(int row, int slot) const {
    const std::size_t width = static_cast<std::size_t>(problem.heads + 2 * problem.key_heads);
    return ((static_cast<std::size_t>(sample) * problem.positions + row) * width + slot) *
           problem.depth;
  }
  std::size_t out(int row) const {
    return ((static_cast<std::size_t>(sample) * problem.positions + row) * problem.heads + head) *
           problem.depth;
  }
  int key_slot() const { return problem.heads + head / (problem.heads / problem.key_heads); }
  double dot(const Vector64& a, std::size_t i, const Vector64& b, std::size_t j) const {
    double sum = 0;
    for (int d = 0; d < problem.depth; ++d) sum += a[i + d] * b[j + d];
    return sum;
  }
};

void add_row(const Head& head, int query, AttentionAnswer& answer) {
  const AttentionProblem& problem = head.problem;
  const int end = std::min(problem.length(head.sample), problem.causal ? query + 1 : 1 << 30);
  const double scale = 1 / std::sqrt(static_cast<double>(problem.depth));
  const int keys = head.key_slot(), values = keys + problem.key_heads;
  Vector64 power(static_cast<std::size_t>(end)), slope(power.size());
  for (int key = 0; key < end; ++key)
    power[key] =
        scale * head.dot(head.qkv, head.joined(query, head.head), head.qkv, head.joined(key, keys));
  const double largest = *std::max_element(power.begin(), power.end());
  double sum = 0, mean_slope = 0;
  for (double& one : power) sum += one = std::exp(one - largest);
  const std::size_t place =
      2 * ((static_cast<std::size_t>(head.sample) * problem.heads + head.head) * problem.positions +
           query);
  answer.statistics[place] = largest;
  answer.statistics[place + 1] = 1 / sum;
  for (int key = 0; key < end; ++key) {
    power[key] /= sum;
    slope[key] = head.dot(head.dout, head.out(query), head.qkv, head.joined(key, values));
    mean_slope += power[key] * slope[key];
  }
  for (int key = 0; key < end; ++key) {
    const double change = scale * power[key] * (slope[key] - mean_slope);
    for (int d = 0; d < problem.depth; ++d) {
      const std::size_t q = head.joined(query, head.head) + d, k = head.joined(key, keys) + d;
      const std::size_t v = head.joined(key, values) + d;
      answer.out[head.out(query) + d] += power[key] * head.qkv[v];
      answer.dqkv[q] += change * head.qkv[k];
      answer.dqkv[k] += change * head.qkv[q];
      answer.dqkv[v] += power[key] * head.dout[head.out(query) + d];
    }
  }
}

}  // namespace

std::string AttentionProblem::name() const {
  std::string text = causal ? "causal" : "full";
  for (int extent : {samples, positions, heads, key_heads, depth})
    text += " " + std::to_string(extent);
  return text + (lengths.empty() ? "" : " with lengths");
}

AttentionAnswer reference_answer(const AttentionProblem& problem, const Vector64& qkv,
                                 const Vector64& dout) {
  AttentionAnswer answer;
  answer.out.resize(problem.out_size());
  answer.statistics.resize(problem.rows() * problem.heads * 2);
  answer.dqkv.resize(problem.joined_size());
  for (int sample = 0; sample < problem.samples; ++sample)
    for (int head = 0; head < problem.heads; ++head)
      for (int query = 0; query < problem.length(sample); ++query)
        add_row({problem, qkv, dout, sample, head}, query, answer);
  return answer;
}

}  // namespace gpunode::parity
