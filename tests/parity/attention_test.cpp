// What attention promises beyond its numbers: positions that are hidden from another, by a length or
// by coming later, do not show in its bits and are not even read; nothing grows with T x T; and a
// graph passes its options on, forward and backward.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/graph/builder.hpp"
#include "kernels/graph/compile.hpp"
#include "tests/parity/references.hpp"

namespace gpunode::parity {
namespace {

struct Passed {
  Vector out, statistics, dqkv;
};

// Forward and backward on the CPU; results start as NaN, the workspace is what the contract says.
Passed pass(const AttentionShape& s, const Vector& qkv, const Vector& dout,
            std::size_t workspace_less = 0, ErrorCode expected = {}) {
  const auto backend = cpu::open_backend();
  tensor::BufferPool pool(backend->memory(), 1ull << 30);
  tensor::Workspace workspace(pool);
  EXPECT_TRUE(
      workspace.reserve(ops::attention_workspace_bytes(s.length, s.depth) / (1 + workspace_less)));
  const auto stream = std::move(*backend->open_stream());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Passed passed{Vector(dout.size(), nan),
                Vector(static_cast<std::size_t>(s.statistics().element_count()), nan),
                Vector(qkv.size(), nan)};
  auto done =
      backend->operations().attention(*stream, workspace,
                                      {.qkv = {qkv.data(), s.qkv()},
                                       .heads = s.heads,
                                       .kv_heads = s.kv_heads(),
                                       .causal = s.causal,
                                       .lengths = s.length_tensor(),
                                       .out = {passed.out.data(), s.out()},
                                       .statistics = {passed.statistics.data(), s.statistics()}});
  if (done)
    done = backend->operations().attention_backward(
        *stream, workspace,
        {.dout = {dout.data(), s.out()},
         .qkv = {qkv.data(), s.qkv()},
         .out = {passed.out.data(), s.out()},
         .statistics = {passed.statistics.data(), s.statistics()},
         .heads = s.heads,
         .kv_heads = s.kv_heads(),
         .causal = s.causal,
         .lengths = s.length_tensor(),
         .dqkv = {passed.dqkv.data(), s.qkv()}});
  if (workspace_less > 0)
    EXPECT_EQ(done ? ErrorCode{} : done.error().code, expected);
  else
    EXPECT_TRUE(done) << done.error().message();
  return passed;
}

bool same(const float* left, const float* right, std::int64_t count) {
  return std::memcmp(left, right, static_cast<std::size_t>(count) * sizeof(float)) == 0;
}

TEST(Attention, WhatLiesBeyondALengthIsNotReadAndGivesZeros) {
  for (const bool causal : {true, false}) {
    const AttentionShape all{2, 130, 2, 20, 2, causal, {67, 0}};
    const AttentionShape alone{1, 67, 2, 20, 2, causal};
    Vector qkv = numbers(1, all.qkv().element_count(), 2);
    Vector dout = numbers(2, all.out().element_count());
    const Passed expected =
        pass(alone, Vector(qkv.begin(), qkv.begin() + alone.qkv().element_count()),
             Vector(dout.begin(), dout.begin() + alone.out().element_count()));
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::fill(qkv.begin() + alone.qkv().element_count(), qkv.end(), nan);
    std::fill(dout.begin() + alone.out().element_count(), dout.end(), nan);
    const Passed got = pass(all, qkv, dout);
    const auto zeros_from = [](const Vector& values, std::size_t first) {
      return std::all_of(values.begin() + static_cast<std::ptrdiff_t>(first), values.end(),
                         [](float value) { return value == 0; });
    };
    EXPECT_TRUE(same(got.out.data(), expected.out.data(), alone.out().element_count()));
    EXPECT_TRUE(same(got.dqkv.data(), expected.dqkv.data(), alone.qkv().element_count()));
    EXPECT_TRUE(zeros_from(got.out, expected.out.size()));
    EXPECT_TRUE(zeros_from(got.dqkv, expected.dqkv.size()));
    for (std::size_t head = 0; head < 2; ++head)
      for (std::size_t t = 0; t < 130; ++t) {
        const float* row = &got.statistics[(head * 130 + t) * 2];
        if (t < 67)
          EXPECT_TRUE(same(row, &expected.statistics[(head * 67 + t) * 2], 2)) << head << " " << t;
        else
          EXPECT_EQ(row[0] + row[1], 0.0f) << head << " " << t;
      }
  }
}

TEST(Attention, APositionDoesNotSeeThoseAfterIt) {
  const AttentionShape longer{1, 130, 2, 32}, shorter{1, 71, 2, 32};
  Vector qkv = numbers(1, longer.qkv().element_count(), 2);
  const Vector dout = numbers(2, longer.out().element_count());
  const Passed expected =
      pass(shorter, Vector(qkv.begin(), qkv.begin() + shorter.qkv().element_count()),
           Vector(dout.begin(), dout.begin() + shorter.out().element_count()));
  const Passed got = pass(longer, qkv, dout);
  EXPECT_TRUE(same(got.out.data(), expected.out.data(), shorter.out().element_count()));
  EXPECT_FALSE(same(got.dqkv.data(), expected.dqkv.data(), shorter.qkv().element_count()))
      << "but later positions depend on it";
  const Passed full = pass({1, 130, 2, 32, 1, false}, qkv, dout);
  EXPECT_FALSE(same(full.out.data(), got.out.data(), 32));
}

TEST(Attention, ASampleHasTheSameBitsWhereverItLiesInABatch) {
  const AttentionShape three{3, 65, 4, 20, 2}, one{1, 65, 4, 20, 2};
  const Vector qkv = numbers(1, three.qkv().element_count(), 2);
  const Vector dout = numbers(2, three.out().element_count());
  const Passed got = pass(three, qkv, dout);
  const auto joined = one.qkv().element_count(), single = one.out().element_count();
  const Passed last =
      pass(one, Vector(qkv.end() - joined, qkv.end()), Vector(dout.end() - single, dout.end()));
  EXPECT_TRUE(same(&*(got.out.end() - single), last.out.data(), single));
  EXPECT_TRUE(same(&*(got.dqkv.end() - joined), last.dqkv.data(), joined));
}

TEST(Attention, LargeScoresDoNotOverflow) {
  const AttentionShape s{1, 130, 1, 8, 1, false};
  const Vector qkv = numbers(1, s.qkv().element_count(), 60);
  const Passed got = pass(s, qkv, numbers(2, s.out().element_count()));
  const auto reference = reference_attention(s, Vector64(qkv.begin(), qkv.end()));
  EXPECT_LE(worst_difference({got.out}, reference), 1e-3);
  for (const float value : got.dqkv) EXPECT_TRUE(std::isfinite(value));
}

TEST(Attention, NeedsNoWorkspaceThatGrowsWithTheSquareOfTheLength) {
  constexpr auto need = [](std::int64_t positions) {
    return ops::attention_workspace_bytes(positions, 64);
  };
  static_assert(need(4096) - need(2048) == need(2048) - need(0));
  static_assert(need(1024) < 1024 * 1024 * sizeof(float));
  // pass() reserves just that; with a third of it a call fails and says why.
  for (const AttentionShape& s : {AttentionShape{1, 1, 1, 8}, AttentionShape{1, 257, 2, 33, 2}}) {
    const Vector qkv = numbers(1, s.qkv().element_count());
    pass(s, qkv, numbers(2, s.out().element_count()));
  }
  const AttentionShape s{1, 257, 1, 32};
  pass(s, numbers(1, s.qkv().element_count()), numbers(2, s.out().element_count()), 2,
       ErrorCode::out_of_memory);
}

// A model of one attention with every option, as a graph: its gradient against differences of its
// loss.
class AttentionGraph {
 public:
  AttentionGraph() : executable_(made()), pool_(backend_->memory(), 1ull << 30) {
    const graph::MemoryPlan& plan = executable_->plan();
    slice_ = *pool_.take(plan.slice_bytes);
    scratch_ = *pool_.take(plan.scratch_bytes);
    EXPECT_TRUE(workspace_.reserve(plan.workspace_bytes));
  }

  std::size_t parameter_count() const { return executable_->graph().parameter_count; }

  // The sum of the losses, and the gradient where there is room for it.
  double run(const Vector& weights, Vector* gradient) {
    const graph::Graph& graph = executable_->graph();
    graph::Places places{.slice = slice_.as<std::byte>(),
                         .scratch = scratch_.as<std::byte>(),
                         .parameters = weights.data()};
    const std::vector<std::vector<std::int32_t>> inputs = {
        token_numbers(1, kSamples * kPositions, kVocabulary),
        {9, 4},
        token_numbers(2, kSamples * kPositions, kVocabulary)};
    for (std::size_t at = 0; at < inputs.size(); ++at)
      std::memcpy(executable_->place_of(graph.inputs[at], places), inputs[at].data(),
                  inputs[at].size() * sizeof(std::int32_t));
    const std::size_t stages = gradient ? executable_->stages() : graph.forward_stages;
    double sum = 0;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      if (stage >= graph.forward_stages)
        places.gradient = gradient->data() + graph.made_final[stage - graph.forward_stages].first;
      EXPECT_TRUE(executable_->run(stage, *backend_, *stream_, workspace_, places));
      if (stage + 1 != graph.forward_stages) continue;
      const auto* losses = static_cast<const float*>(executable_->place_of(graph.losses, places));
      for (std::size_t row = 0; row < graph[graph.losses].element_count(); ++row)
        sum += losses[row];
    }
    return sum;
  }

 private:
  static constexpr std::int64_t kSamples = 2, kPositions = 9, kVocabulary = 7, kChannels = 12;

  static std::shared_ptr<const graph::Executable> made() {
    graph::Builder g({.samples = kSamples, .positions = kPositions});
    const auto tokens = g.input("tokens", graph::Dtype::i32, {kPositions});
    const auto lengths = g.input("lengths", graph::Dtype::i32, {});
    const auto targets = g.input("targets", graph::Dtype::i32, {kPositions});
    const auto table = g.parameter("table", {kVocabulary, kChannels}, graph::normal(1));
    const auto places = g.parameter("places", {kPositions, kChannels}, graph::normal(1));
    const auto joined = g.parameter("joined", {(4 + 2 * 2) * 3, kChannels}, graph::normal(1));
    const auto x = g.linear(g.embedding(tokens, table, places), joined);
    const auto y = g.attention(x, {.heads = 4, .kv_heads = 2, .causal = false, .lengths = lengths});
    g.predict(g.linear(y, table), targets);
    return *graph::compile(*g.finish(), graph::Purpose::train);
  }

  std::shared_ptr<const graph::Executable> executable_;
  std::unique_ptr<ops::Backend> backend_ = cpu::open_backend();
  tensor::BufferPool pool_;
  std::unique_ptr<tensor::Stream> stream_ = std::move(*backend_->open_stream());
  tensor::Workspace workspace_{pool_};
  tensor::Buffer slice_, scratch_;
};

TEST(Attention, AGraphsGradientAgreesWithDifferencesOfItsLoss) {
  AttentionGraph model;
  const Vector weights = numbers(3, static_cast<std::int64_t>(model.parameter_count()));
  Vector gradient(weights.size());
  model.run(weights, &gradient);
  for (std::size_t place = 0; place < weights.size(); place += 7) {
    Vector moved = weights;
    moved[place] = weights[place] + 1.0f / 256;
    const double above = model.run(moved, nullptr);
    moved[place] = weights[place] - 1.0f / 256;
    const double difference = (above - model.run(moved, nullptr)) * 128;
    EXPECT_NEAR(gradient[place], difference, 4e-3 * (1 + std::abs(difference))) << place;
  }
}

}  // namespace
}  // namespace gpunode::parity
