// What calls of every operation cost, against numbers worked out by hand from the formulas in
// kernels/ops; a new operation without a line here is found.
#include <gtest/gtest.h>

#include <set>

#include "kernels/graph/compile.hpp"
#include "kernels/graph/op.hpp"
#include "tests/unit/kernels/graph/small_model.hpp"

namespace gpunode::graph {
namespace {

using tensor::Shape;

struct Line {
  Op op;
  std::vector<Shape> in, out;  // an empty shape: absent
  double flops, bytes;
  Attributes attributes = {};
};

const Attributes kHeads{.heads = 2, .kv_heads = 1, .causal = true};
const Attributes kErf{.form = ops::GeluForm::erf};
const Shape kNo{};

const Line kLines[] = {
    // (2, 3) tokens, a table of 10 rows of 4, positions: one sum for each of 24 elements; 6 tokens,
    // 24 elements of rows, 12 of positions, 24 written.
    {Op::embedding, {{2, 3}, {10, 4}, {5, 4}}, {{2, 3, 4}}, 24, 4 * (6 + 24 + 12 + 24)},
    {Op::embedding, {{2, 3}, {10, 4}, kNo}, {{2, 3, 4}}, 0, 4 * (6 + 24 + 24)},
    {Op::embedding,
     {{2, 3}, {10, 4}, {3, 4}, {2, 3}, {2, 4}},
     {{2, 3, 4}},
     48,
     4 * (6 + 24 + 12 + 6 + 8 + 24)},
    {Op::embedding_backward, {{2, 3}, {2, 3, 4}, {10, 4}}, {{10, 4}}, 24, 4 * (6 + 24 + 48)},
    {Op::embedding_backward,
     {{2, 3}, {2, 3, 4}, kNo},
     {{10, 4}, {5, 4}},
     48,
     4 * (6 + 24 + 40 + 20)},
    {Op::layernorm, {{3, 5}, {5}, {5}}, {{3, 5}, {3}, {3}}, 105, 4 * (15 + 10 + 15 + 6)},
    {Op::layernorm_backward,
     {{3, 5}, {3, 5}, {5}, {3}, {3}, {3, 5}},
     {{3, 5}, {5}, {5}},
     14 * 15,
     4 * (15 + 15 + 5 + 6 + 15 + 15 + 10)},
    {Op::layernorm_backward,
     {{3, 5}, {3, 5}, {5}, {3}, {3}, kNo},
     {{3, 5}, {5}, {5}},
     13 * 15,
     4 * (15 + 15 + 5 + 6 + 15 + 10)},
    // 3 rows of 7 by 5: 2*3*5*7, and the bias.
    {Op::linear, {{3, 7}, {5, 7}, {5}}, {{3, 5}}, 210 + 15, 4 * (21 + 35 + 5 + 15)},
    {Op::linear, {{3, 7}, {5, 7}, kNo}, {{3, 5}}, 210, 4 * (21 + 35 + 15)},
    {Op::linear_weight, {{3, 5}, {3, 7}, kNo}, {{5, 7}}, 210, 4 * (15 + 21 + 35)},
    {Op::linear_weight, {{3, 5}, {3, 7}, {5, 7}}, {{5, 7}}, 210, 4 * (15 + 21 + 70)},
    {Op::linear_input, {{3, 5}, {5, 7}}, {{3, 7}}, 210, 4 * (15 + 35 + 21)},
    {Op::column_sum, {{3, 5}}, {{5}}, 15, 80},
    {Op::gelu, {{6}}, {{6}}, 54, 48},
    {Op::gelu, {{6}}, {{6}}, 30, 48, kErf},
    {Op::gelu_backward, {{6}, {6}}, {{6}}, 108, 72},
    {Op::gelu_backward, {{6}, {6}}, {{6}}, 66, 72, kErf},
    // (2, 3) positions, 2 query heads and 1 of keys, 4 wide: 4 matrices of 6 pairs, 21 a pair.
    {Op::attention,
     {{2, 3, 16}, kNo},
     {{2, 3, 8}, {2, 2, 3, 2}},
     4 * 6 * 21,
     4 * (96 + 48 + 24),
     kHeads},
    {Op::attention,
     {{2, 3, 16}, {2}},
     {{2, 3, 8}, {2, 2, 3, 2}},
     4 * 9 * 21,
     4 * (96 + 2 + 48 + 24),
     {.heads = 2, .kv_heads = 1}},
    {Op::attention_backward,
     {{2, 3, 8}, {2, 3, 16}, {2, 3, 8}, {2, 2, 3, 2}, kNo},
     {{2, 3, 16}},
     4 * (6 * 35 + 3 * 8),
     4 * (48 + 96 + 48 + 24 + 96),
     kHeads},
    // One position of 12 = 3 * 2 heads of 2: 2 pages of 5 keys for each head, 13 a pair.
    {Op::attention_paged,
     {{1, 1, 12}, {10, 4}, {10, 4}, {1, 1}, {1}, {1, 2}},
     {{1, 1, 4}},
     2 * 10 * 13,
     4 * (12 + 80 + 4 + 4),
     {.heads = 2, .causal = true, .page = 5}},
    {Op::add, {{6}, {6}}, {{6}}, 6, 72},
    {Op::take_rows, {{1, 1}, {1, 3, 4}}, {{1, 1, 4}}, 0, 32},
    {Op::cross_entropy, {{3, 5}, {3}}, {{3}}, 60, 4 * (15 + 3 + 3)},
    {Op::cross_entropy_backward, {{3, 5}, {3}}, {{3, 5}}, 75, 4 * (15 + 3 + 15)},
    {Op::cross_entropy_both, {{3, 5}, {3}}, {{3}, {3, 5}}, 75, 4 * (15 + 3 + 3 + 15)},
    // A product of 210 + 15, and 9 an element.
    {Op::linear_gelu,
     {{3, 7}, {5, 7}, {5}},
     {{3, 5}, {3, 5}},
     225 + 135,
     4 * (21 + 35 + 5 + 15 + 15)},
    {Op::add_layernorm,
     {{3, 5}, {3, 5}, {5}, {5}},
     {{3, 5}, {3, 5}, {3}, {3}},
     120,
     4 * (30 + 10 + 30 + 6)},
    {Op::add_rmsnorm, {{3, 5}, {3, 5}, {5}}, {{3, 5}, {3, 5}, {3}}, 75, 4 * (30 + 5 + 30 + 3)},
    {Op::rmsnorm, {{3, 5}, {5}}, {{3, 5}, {3}}, 60, 4 * (15 + 5 + 15 + 3)},
    {Op::rmsnorm_backward,
     {{3, 5}, {3, 5}, {5}, {3}, {3, 5}},
     {{3, 5}, {5}},
     150,
     4 * (15 + 15 + 5 + 3 + 15 + 15 + 5)},
    {Op::swiglu, {{3, 8}}, {{3, 4}}, 60, 4 * (24 + 12)},
    {Op::swiglu_backward, {{3, 4}, {3, 8}}, {{3, 8}}, 144, 4 * (12 + 24 + 24)},
    // 3 of 4 parts are queries and keys: 6 flops a pair of elements.
    {Op::rotary, {{1, 3, 16}, {5, 4}}, {{1, 3, 16}}, 3 * 36, 4 * (48 + 20 + 48), kHeads},
    {Op::relu, {{6}}, {{6}}, 6, 48},
    {Op::relu_backward, {{6}, {6}}, {{6}}, 6, 72},
    {Op::tanh, {{6}}, {{6}}, 6, 48},
    {Op::tanh_backward, {{6}, {6}}, {{6}}, 18, 72},
    // 4 x 4 pixels of 3 channels to 5 by kernels of 3 x 3: 80 sums of 27 products.
    {Op::conv2d, {{1, 4, 4, 3}, {5, 3, 3, 3}}, {{1, 4, 4, 5}}, 80 * 54, 4 * (48 + 135 + 80)},
    {Op::conv2d_backward,
     {{1, 4, 4, 5}, {1, 4, 4, 3}, {5, 3, 3, 3}},
     {{5, 3, 3, 3}},
     80 * 54,
     4 * (80 + 48 + 135 + 135)},
    {Op::conv2d_backward,
     {{1, 4, 4, 5}, {1, 4, 4, 3}, {5, 3, 3, 3}},
     {{5, 3, 3, 3}, {1, 4, 4, 3}},
     2 * 80 * 54,
     4 * (80 + 48 + 135 + 135 + 48)},
    {Op::batchnorm, {{6, 5}, {5}, {5}}, {{6, 5}, {5}, {5}}, 210, 4 * (30 + 10 + 30 + 10)},
    {Op::batchnorm_backward,
     {{6, 5}, {6, 5}, {5}, {5}, {5}},
     {{6, 5}, {5}, {5}},
     390,
     4 * (60 + 15 + 30 + 10)},
    {Op::batchnorm_inference,
     {{6, 5}, {5}, {5}, {5}, {5}},
     {{6, 5}, {5}, {5}},
     120,
     4 * (30 + 20 + 30 + 10)},
    {Op::batchnorm_statistics, {{5}, {5}}, {{5}, {5}}, 30, 80},
    {Op::max_pool2d,
     {{1, 4, 4, 3}},
     {{1, 2, 2, 3}, {1, 2, 2, 3}},
     48,
     4 * (48 + 24),
     {.window = 2, .stride = 2}},
    {Op::max_pool2d_backward, {{1, 2, 2, 3}, {1, 2, 2, 3}}, {{1, 4, 4, 3}}, 12, 4 * (24 + 48)},
    {Op::mean_pool, {{1, 2, 2, 3}}, {{1, 3}}, 12, 4 * 15},
    {Op::mean_pool_backward, {{1, 3}}, {{1, 2, 2, 3}}, 12, 4 * 15},
};

TEST(Cost, OfEachOperationIsWhatAHandWorksOut) {
  std::set<Op> told;
  for (const Line& line : kLines) {
    Graph graph;
    Node node{.op = line.op, .attributes = line.attributes};
    const auto place = [&](const Shape& shape) {
      return shape.rank() == 0 ? kNone : graph.add({.shape = shape});
    };
    for (const Shape& shape : line.in) node.in.push_back(place(shape));
    for (const Shape& shape : line.out) node.out.push_back(place(shape));
    const Cost cost = cost_of(graph, node);
    const std::string name(row_of(line.op).name);
    EXPECT_EQ(cost.flops, line.flops) << name;
    EXPECT_EQ(cost.bytes, line.bytes) << name;
    told.insert(line.op);
  }
  for (std::size_t op = 0; op < static_cast<std::size_t>(Op::count); ++op)
    EXPECT_TRUE(told.contains(static_cast<Op>(op))) << row_of(static_cast<Op>(op)).name;
}

// The rule of thumb for training: six operations a token and weight that multiplies it.
TEST(Cost, OfATrainingStepIsNearlySixATokenAndWeight) {
  const auto made = compile(small_model(2, 64), Purpose::train);
  ASSERT_TRUE(made);
  const double multiplying = 2 * 1024 * 64 + 16 * 64;
  EXPECT_NEAR(cost_of((*made)->graph()).flops / (6 * 8 * multiplying), 1, 0.05);
}

}  // namespace
}  // namespace gpunode::graph
