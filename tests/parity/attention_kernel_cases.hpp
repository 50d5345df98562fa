// Runs the attention kernels of either precision under the emulation and holds them against
// float64: what the two test files share. A test file includes the kernel's source
// before this.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/toolkit/launch.hpp"
#include "tests/parity/attention_reference.hpp"
#include "tests/parity/emulation/engine.hpp"
#include "tests/parity/emulation/guarded.hpp"
#include "tests/parity/emulation/tensor_core.hpp"
#include "tests/parity/emulation/ways.hpp"

namespace gpunode::parity {

inline float narrow(double value, const float&) {
  return static_cast<float>(value);
}
inline std::uint16_t narrow(double value, const std::uint16_t&) {
  return emulation::to_bf16(static_cast<float>(value));
}
inline double widen_one(float value) {
  return value;
}
inline double widen_one(std::uint16_t value) {
  return emulation::from_bf16(value);
}
template <class Element>
Vector64 widen_all(std::span<const Element> values) {
  Vector64 wide;
  for (Element one : values) wide.push_back(widen_one(one));
  return wide;
}

template <class Element>
struct AttentionInputs {
  std::vector<Element> qkv, dout;

  // Numbers in the kernel's precision. Rows beyond a sample's length are NaN: nothing may use them.
  explicit AttentionInputs(const AttentionProblem& problem, double range = 1.5)
      : qkv(filled(problem, 1, problem.joined_size(), range)),
        dout(filled(problem, 2, problem.out_size(), 1.0)) {}

 private:
  static std::vector<Element> filled(const AttentionProblem& problem, std::uint64_t seed,
                                     std::size_t size, double range) {
    std::vector<Element> values;
    const std::size_t width = size / problem.rows();
    for (float one : numbers(seed, static_cast<std::int64_t>(size), range)) {
      const auto row = static_cast<int>(values.size() / width);
      const bool counts = row % problem.positions < problem.length(row / problem.positions);
      values.push_back(narrow(counts ? one : NAN, Element()));
    }
    return values;
  }
};

template <class Element>
struct AttentionResults {
  std::vector<Element> out, dqkv;
  std::vector<float> statistics;
  bool operator==(const AttentionResults&) const = default;
};

// Forward and backward; fails, with empty results, where a kernel does.
template <class Element>
AttentionResults<Element> run_attention(const AttentionProblem& problem,
                                        const AttentionInputs<Element>& inputs, Way way) {
  using emulation::Guarded;
  emulation::settings().schedule = way.schedule;
  emulation::settings().landing = way.landing;
  const Guarded<Element> qkv(std::span<const Element>(inputs.qkv));
  const Guarded<Element> dout(std::span<const Element>(inputs.dout));
  const Guarded<int> lengths{std::span<const int>(problem.lengths)};
  const std::size_t rows = problem.rows() * problem.heads;
  Guarded<Element> out(problem.out_size()), dqkv(problem.joined_size());
  Guarded<float> statistics(2 * rows), deltas(rows);
  const cuda::AttentionExtents extents = {problem.samples,
                                          problem.positions,
                                          problem.heads,
                                          problem.key_heads,
                                          problem.depth,
                                          problem.causal,
                                          problem.lengths.empty() ? nullptr : lengths.data()};
  const auto forward = cuda::launch(
      cuda::AttentionLaunch<Element>{extents, qkv.data(), out.data(), statistics.data()}, nullptr);
  if (forward != cudaSuccess) return {};
  const auto backward = cuda::launch(
      cuda::AttentionBackwardLaunch<Element>{extents, dout.data(), out.data(), qkv.data(),
                                             statistics.data(), deltas.data(), dqkv.data()},
      nullptr);
  if (backward != cudaSuccess) return {};
  const auto copied = [](auto values) { return std::vector(values.begin(), values.end()); };
  return {copied(out.values()), copied(dqkv.values()), copied(statistics.values())};
}

// The worst |difference| over the largest |entry|; infinity where something is not finite.
inline double worst_part(const Vector64& results, const Vector64& expected) {
  double worst = 0, largest = 1e-6;  // a single position has gradients of 0
  for (double one : expected) largest = std::max(largest, std::abs(one));
  if (results.size() != expected.size()) return INFINITY;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!std::isfinite(results[i])) return INFINITY;
    worst = std::max(worst, std::abs(results[i] - expected[i]));
  }
  return worst / largest;
}

struct Worst {
  double out, statistics, dqueries, dkeys, dvalues;
};
template <class Element>
Worst worst_parts(const AttentionProblem& problem, const AttentionInputs<Element>& inputs,
                  const AttentionResults<Element>& results) {
  const auto wide = [](const std::vector<Element>& values) {
    return widen_all(std::span<const Element>(values));
  };
  const AttentionAnswer expected = reference_answer(problem, wide(inputs.qkv), wide(inputs.dout));
  const Vector64 dqkv = wide(results.dqkv);
  const auto part = [&](const Vector64& all, int from, int to) {
    Vector64 some;
    const int width = (problem.heads + 2 * problem.key_heads) * problem.depth;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const int column = static_cast<int>(i % width) / problem.depth;
      if (column >= from && column < to) some.push_back(all[i]);
    }
    return some;
  };
  const auto gradient = [&](int from, int to) {
    return dqkv.empty() ? INFINITY
                        : worst_part(part(dqkv, from, to), part(expected.dqkv, from, to));
  };
  const int h = problem.heads, k = problem.key_heads;
  return {worst_part(wide(results.out), expected.out),
          worst_part(widen_all(std::span<const float>(results.statistics)), expected.statistics),
          gradient(0, h), gradient(h, h + k), gradient(h + k, h + 2 * k)};
}

}  // namespace gpunode::parity
