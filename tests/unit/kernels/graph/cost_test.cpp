#include "kernels/graph/cost.hpp"

#include <gtest/gtest.h>

#include "kernels/graph/builder.hpp"
#include "kernels/graph/compile.hpp"
#include "kernels/graph/op.hpp"

namespace gpunode::graph {
namespace {

std::shared_ptr<const Executable> compiled(Builder& g) {
  auto forward = g.finish();
  EXPECT_TRUE(forward);
  auto made = compile(std::move(*forward), Purpose::train);
  EXPECT_TRUE(made);
  return *made;
}

// Of all nodes of this kind.
Cost cost_of(const Graph& graph, Op op) {
  Cost cost;
  for (const Node& node : graph.nodes)
    if (node.op == op) cost += graph::cost_of(graph, node);
  return cost;
}

TEST(Cost, counts_a_product_forward_and_backward) {
  Builder g({.samples = 2, .positions = 3});
  const ValueId tokens = g.input("tokens", Dtype::i32, {3});
  const ValueId targets = g.input("targets", Dtype::i32, {3});
  const ValueId x = g.embedding(tokens, g.parameter("table", {100, 5}, normal(1)));
  g.predict(g.linear(x, g.parameter("weight", {7, 5}, normal(1))), targets);
  const auto made = compiled(g);
  const Graph& graph = made->graph();
  constexpr double kProduct = 2.0 * 6 * 7 * 5;  // rows, columns, inner extent
  for (const Op op : {Op::linear, Op::linear_weight, Op::linear_input})
    EXPECT_DOUBLE_EQ(cost_of(graph, op).flops, kProduct);
  EXPECT_DOUBLE_EQ(graph::cost_of(graph).flops, 3 * kProduct);
  EXPECT_DOUBLE_EQ(cost_of(graph, Op::linear).bytes, 4.0 * (6 * 5 + 7 * 5 + 6 * 7));
  EXPECT_DOUBLE_EQ(cost_of(graph, Op::embedding).bytes, 2 * 4.0 * 6 * 5) << "not the whole table";
}

TEST(Cost, counts_the_scores_of_attention_that_are_made) {
  for (const bool causal : {true, false}) {
    Builder g({.samples = 2, .positions = 8});
    const ValueId tokens = g.input("tokens", Dtype::i32, {8});
    const ValueId targets = g.input("targets", Dtype::i32, {8});
    const ValueId x = g.embedding(tokens, g.parameter("table", {9, 24}, normal(1)));
    const ValueId out = g.attention(x, {.heads = 2, .kv_heads = 1, .causal = causal});
    g.predict(g.linear(out, g.parameter("weight", {9, 12}, normal(1))), targets);
    const auto made = compiled(g);
    // Samples, heads, scores of a head, two products of depth 6 each.
    const double forward = 2.0 * 2 * (causal ? 36 : 64) * 2 * 2 * 6;
    EXPECT_DOUBLE_EQ(cost_of(made->graph(), Op::attention).flops, forward);
    EXPECT_DOUBLE_EQ(cost_of(made->graph(), Op::attention_backward).flops, 2.5 * forward);
  }
}

TEST(Cost, counts_a_convolution) {
  Builder g({.samples = 2, .positions = 1});
  const ValueId image = g.input("image", Dtype::f32, {6, 5, 3});
  const ValueId label = g.input("label", Dtype::i32, {1});
  const ValueId first = g.conv2d(image, g.parameter("first", {4, 3, 3, 3}, normal(1)), {1, 1});
  const ValueId second = g.conv2d(first, g.parameter("second", {4, 3, 3, 4}, normal(1)), {2, 1});
  g.predict(g.linear(g.mean_pool(second), g.parameter("weight", {3, 4}, normal(1))), label);
  const auto made = compiled(g);
  const double one = 2.0 * (2 * 6 * 5) * 4 * 27, two = 2.0 * (2 * 3 * 3) * 4 * 36;
  EXPECT_DOUBLE_EQ(cost_of(made->graph(), Op::conv2d).flops, one + two);
  EXPECT_DOUBLE_EQ(cost_of(made->graph(), Op::conv2d_backward).flops, one + 2 * two)
      << "nobody wants the gradient of the image";
}

}  // namespace
}  // namespace gpunode::graph
