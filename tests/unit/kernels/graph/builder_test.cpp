#include "kernels/graph/builder.hpp"

#include <gtest/gtest.h>

#include "tests/unit/kernels/graph/small_model.hpp"

namespace gpunode::graph {
namespace {

TEST(Builder, ParametersLieInTheOrderOfTheirDeclaration) {
  const Graph graph = small_model();
  std::size_t at = 0;
  for (const ValueId id : graph.parameters) {
    EXPECT_EQ(graph[id].first, at) << graph[id].name;
    at += graph[id].element_count();
  }
  EXPECT_EQ(graph.parameter_count, at);
}

TEST(Builder, TellsTheFirstCallWhoseShapesDoNotFit) {
  Builder g({.samples = 1, .positions = 3});
  const ValueId x = g.input("pixels", Dtype::f32, {5});
  const ValueId weight = g.parameter("weight", {2, 6}, normal(1));
  const ValueId other = g.parameter("other", {7, 2}, normal(1));
  const ValueId y = g.linear(x, weight);
  g.predict(g.add(g.linear(y, other), y), g.input("targets", Dtype::i32, {1}));
  const auto graph = g.finish();
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(graph.error().detail.find("linear cannot take (1, 5) (2, 6)"), std::string::npos)
      << graph.error().detail;
}

TEST(Builder, AModelThatPredictsNothingIsRefused) {
  Builder g({});
  g.gelu(g.parameter("weight", {4}, constant(1)));
  EXPECT_FALSE(g.finish());
}

TEST(Builder, ASessionReadsThroughACacheAndPredictsTheLastPosition) {
  Builder g({.samples = 1, .positions = 3, .cached = 10});
  const ValueId tokens = g.input("tokens", Dtype::i32, {3});
  const ValueId table = g.parameter("table", {16, 8}, normal(1));
  const ValueId places = g.parameter("places", {10, 8}, normal(1));
  const ValueId joined = g.parameter("joined", {24, 8}, normal(1));
  const ValueId x = g.attention(g.linear(g.embedding(tokens, table, places), joined), 2);
  g.predict(g.linear(g.predicting(x), table), kNone);
  const auto graph = g.finish();
  ASSERT_TRUE(graph) << graph.error().detail;
  ASSERT_EQ(graph->caches.size(), 2u);
  EXPECT_EQ((*graph)[graph->caches[0]].shape, (tensor::Shape{10, 8}));
  EXPECT_EQ((*graph)[graph->logits].shape, (tensor::Shape{1, 1, 16}));
  EXPECT_EQ(graph->losses, kNone);
}

}  // namespace
}  // namespace gpunode::graph
