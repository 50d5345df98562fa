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
  EXPECT_NE(graph.error().detail.find("linear cannot take pixels (1, 5) weight (2, 6)"),
            std::string::npos)
      << graph.error().detail;
}

TEST(Builder, EveryMistakeIsAnErrorThatNamesIt) {
  struct Mistake {
    const char* text;
    void (*write)(Builder& g, ValueId x, ValueId targets);
  };
  static const auto head = [](Builder& g, ValueId x, ValueId targets) {
    g.predict(g.linear(x, g.parameter("head", {3, 6}, normal(1))), targets);
  };
  const Mistake kMistakes[] = {
      {"linear: an operand is missing", [](Builder& g, ValueId, ValueId y) { head(g, kNone, y); }},
      {"linear: an operand is no value", [](Builder& g, ValueId, ValueId y) { head(g, 9999, y); }},
      {"linear: an operand is no value",
       [](Builder& g, ValueId x, ValueId y) { head(g, g.linear(x, 12345), y); }},
      {"predict: an operand is missing", [](Builder& g, ValueId x, ValueId) { head(g, x, kNone); }},
      {"whole numbers (i32) as its operand 2",
       [](Builder& g, ValueId x, ValueId) { head(g, x, g.input("l", Dtype::f32, {1})); }},
      {"floats (f32) as its operand 1",
       [](Builder& g, ValueId x, ValueId y) { g.relu(y), head(g, x, y); }},
      {"'c' has no contents",
       [](Builder& g, ValueId x, ValueId y) { g.constant("c", {6}, nullptr), head(g, x, y); }},
      {"'w' has 9 dimensions",
       [](Builder& g, ValueId x, ValueId y) {
         g.parameter("w", {1, 1, 1, 1, 1, 1, 1, 1, 1}, normal(1)), head(g, x, y);
       }},
      {"conv2d cannot take",
       [](Builder& g, ValueId x, ValueId y) {
         const ValueId image = g.input("image", Dtype::f32, {4, 4, 1});
         g.conv2d(image, g.parameter("k", {2, 0, 0, 1}, normal(1)), {}), head(g, x, y);
       }},
      {"max_pool2d cannot take",
       [](Builder& g, ValueId x, ValueId y) {
         const ValueId image = g.input("image", Dtype::f32, {4, 4, 1});
         g.max_pool2d(image, std::int64_t{1} << 62, {}), head(g, x, y);
       }},
      {"layernorm cannot take",
       [](Builder& g, ValueId x, ValueId y) {
         const ValueId one = g.parameter("one", {6}, constant(1));
         head(g, g.layernorm(x, one, one, -5), y);
       }},
      {"two inputs are called 'features'",
       [](Builder& g, ValueId x, ValueId y) {
         g.input("features", Dtype::f32, {6}), head(g, x, y);
       }},
      {"predict() twice", [](Builder& g, ValueId x, ValueId y) { head(g, x, y), head(g, x, y); }},
      {"measured by no batchnorm",
       [](Builder& g, ValueId x, ValueId y) {
         g.buffer("b", {6}, constant(0), 0.1f), head(g, x, y);
       }},
  };
  for (const Mistake& one : kMistakes) {
    Builder g({.samples = 2, .positions = 1});
    const ValueId x = g.input("features", Dtype::f32, {6});
    one.write(g, x, g.input("targets", Dtype::i32, {1}));
    const auto graph = g.finish();
    ASSERT_FALSE(graph) << one.text;
    EXPECT_EQ(graph.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(graph.error().detail.find(one.text), std::string::npos) << graph.error().detail;
  }
}

TEST(Builder, AModelThatPredictsNothingIsRefused) {
  Builder g({});
  g.gelu(g.parameter("weight", {4}, constant(1)));
  EXPECT_FALSE(g.finish());
}

TEST(Builder, ADecodingPassReadsThroughPagesAndPredictsTheChosenPositions) {
  Builder g({.samples = 1,
             .positions = 3,
             .decoding = {.context = 10, .texts = 2, .page = 4, .pages = 5, .chosen = 2}});
  const ValueId tokens = g.input("tokens", Dtype::i32, {3});
  const ValueId table = g.parameter("table", {16, 8}, normal(1));
  const ValueId places = g.parameter("places", {10, 8}, normal(1));
  const ValueId joined = g.parameter("joined", {24, 8}, normal(1));
  const ValueId x = g.attention(g.linear(g.embedding(tokens, table, places), joined), {.heads = 2});
  g.predict(g.linear(g.predicting(x), table), kNone);
  const auto graph = g.finish();
  ASSERT_TRUE(graph) << graph.error().detail;
  ASSERT_EQ(graph->caches.size(), 2u);
  EXPECT_EQ((*graph)[graph->caches[0]].shape, (tensor::Shape{20, 8}));
  EXPECT_EQ((*graph)[graph->logits].shape, (tensor::Shape{1, 2, 16}));
  EXPECT_EQ((*graph)[graph->decoding.positions].shape, (tensor::Shape{1, 3}));
  EXPECT_EQ((*graph)[graph->decoding.texts].shape, (tensor::Shape{3}));
  EXPECT_EQ((*graph)[graph->decoding.pages].shape, (tensor::Shape{2, 3}));
  EXPECT_EQ((*graph)[graph->decoding.chosen].shape, (tensor::Shape{1, 2}));
  EXPECT_EQ(graph->losses, kNone);
}

TEST(Builder, QueryHeadsThatShareKeysCacheFewerOfThem) {
  Builder g({.samples = 1, .positions = 1, .decoding = {.context = 10, .page = 5, .pages = 2}});
  const ValueId x = g.parameter("x", {1, 1, 4}, normal(1));
  const ValueId joined = g.parameter("joined", {3 * (4 + 2 * 2), 4}, normal(1));
  const ValueId y = g.attention(g.linear(x, joined), {.heads = 4, .kv_heads = 2});
  g.predict(g.predicting(y), kNone);
  const auto graph = g.finish();
  ASSERT_TRUE(graph) << graph.error().detail;
  EXPECT_EQ((*graph)[graph->caches[0]].shape, (tensor::Shape{10, 2 * 3}));
  EXPECT_EQ((*graph)[graph->logits].shape, (tensor::Shape{1, 1, 4 * 3}));
}

TEST(Builder, AttentionKeepsTwoNumbersARowAndPassesItsLengthsOn) {
  Builder g({.samples = 2, .positions = 5});
  const ValueId lengths = g.input("lengths", Dtype::i32, {});
  const ValueId x = g.parameter("x", {2, 5, 3 * (4 + 2 * 2)}, normal(1));
  g.predict(g.attention(x, {.heads = 4, .kv_heads = 2, .causal = false, .lengths = lengths}),
            g.input("targets", Dtype::i32, {5}));
  const auto graph = g.finish();
  ASSERT_TRUE(graph) << graph.error().detail;
  const Node& node = graph->nodes[0];
  EXPECT_EQ(node.in, (std::vector{x, lengths}));
  EXPECT_EQ((*graph)[node.out[0]].shape, (tensor::Shape{2, 5, 4 * 3}));
  EXPECT_EQ((*graph)[node.out[1]].shape, (tensor::Shape{2, 4, 5, 2}));
  EXPECT_EQ(node.attributes, (Attributes{.heads = 4, .kv_heads = 2, .causal = false}));
}

TEST(Builder, RefusesAttentionThatNoDeviceCouldDo) {
  const auto refused = [](std::int64_t cached, Dtype dtype, Builder::AttentionOptions options) {
    Builder g({.samples = 2, .positions = 1, .decoding = {.context = cached, .pages = 1}});
    options.lengths = g.input("lengths", dtype, {});
    const ValueId x = g.parameter("x", {2, 1, 60}, normal(1));
    g.predict(g.attention(x, options), g.input("targets", Dtype::i32, {1}));
    return !g.finish();
  };
  EXPECT_FALSE(refused(0, Dtype::i32, {.heads = 3, .kv_heads = 1}));
  EXPECT_TRUE(refused(0, Dtype::i32, {.heads = 3, .kv_heads = 2})) << "2 does not divide 3";
  EXPECT_TRUE(refused(0, Dtype::i32, {.heads = 7})) << "21 does not divide 60";
  EXPECT_TRUE(refused(0, Dtype::f32, {.heads = 3, .kv_heads = 1})) << "lengths are whole numbers";
  EXPECT_TRUE(refused(4, Dtype::i32, {.heads = 3, .kv_heads = 1, .causal = false}))
      << "a session cannot see what it has not read";
}

}  // namespace
}  // namespace gpunode::graph
