// What the passes over a graph promise of their order, stages and memory; that the gradients are
// right is the business of tests/parity.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "kernels/graph/compile.hpp"
#include "kernels/graph/differentiate.hpp"
#include "kernels/graph/fuse.hpp"
#include "kernels/graph/op.hpp"
#include "tests/unit/kernels/graph/small_model.hpp"

namespace gpunode::graph {
namespace {

constexpr std::size_t kWide = 1024 * 8;

TEST(Differentiate, NamesTheParameterThatTheLossDoesNotReach) {
  Builder g({});
  const ValueId x = g.parameter("used", {1, 4}, normal(1));
  g.parameter("idle", {4}, constant(0));
  g.predict(g.gelu(x), g.input("targets", Dtype::i32, {1}));
  Graph graph = *g.finish();
  const auto done = differentiate(graph);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().detail.find("'idle'"), std::string::npos) << done.error().detail;
}

TEST(Differentiate, NamesTheOperationThatHasNoBackwardRule) {
  Builder g({.samples = 1, .positions = 1, .decoding = {.context = 4, .pages = 1}});
  const ValueId x = g.parameter("used", {1, 1, 4}, normal(1));
  g.predict(g.predicting(x), kNone);
  Graph graph = *g.finish();
  graph.losses = graph.nodes.back().out[0];
  const auto done = differentiate(graph);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::unsupported);
  EXPECT_NE(done.error().detail.find("take_rows"), std::string::npos) << done.error().detail;
}

TEST(Stages, AreRangesThatTogetherAreAllParameters) {
  const auto made = compile(small_model(), Purpose::train);
  ASSERT_TRUE(made);
  const Graph& graph = (*made)->graph();
  for (const bool forward : {true, false}) {
    auto ranges = forward ? graph.read_first : graph.made_final;
    std::ranges::sort(ranges, {}, &tensor::ElementRange::first);
    std::size_t at = 0;
    for (const tensor::ElementRange& range : ranges) {
      EXPECT_EQ(range.first, at);
      at += range.count;
    }
    EXPECT_EQ(at, graph.parameter_count);
  }
  // The norm of 16 elements does not leave alone, and the table is read before all else.
  ASSERT_EQ(graph.made_final.size(), 2u);
  EXPECT_EQ(graph.made_final[0].count, 2 * kWide + 3 * 8);
  EXPECT_EQ(graph.made_final[1], (tensor::ElementRange{0, 20 * 8}));
}

// The output layer's part of the shared table's gradient is made where the other part is added.
TEST(Stages, APartOfASharedGradientIsMadeInTheStageInWhichItIsFinal) {
  const auto made = compile(small_model(), Purpose::train);
  ASSERT_TRUE(made);
  const Graph& graph = (*made)->graph();
  std::map<std::size_t, std::vector<std::size_t>> stages;  // by the gradient's first element
  for (const Node& node : graph.nodes)
    for (const ValueId id : node.out)
      if (graph[id].role == Role::gradient) stages[graph[id].first].push_back(node.stage);
  EXPECT_EQ(stages[0].size(), 2u);
  for (const auto& [first, written] : stages)
    EXPECT_EQ(*std::ranges::min_element(written), *std::ranges::max_element(written)) << first;
}

std::vector<Op> operations(const Graph& graph) {
  std::vector<Op> all;
  for (const Node& node : graph.nodes) all.push_back(node.op);
  return all;
}

TEST(Fuse, joins_a_sum_with_its_norm_and_a_linear_layer_with_its_gelu) {
  Graph graph = small_model();
  fuse(graph);
  EXPECT_EQ(operations(graph), (std::vector{Op::embedding, Op::linear_gelu, Op::linear,
                                            Op::add_layernorm, Op::linear, Op::cross_entropy}));
  EXPECT_EQ(graph.nodes[1].out[1], kNone) << "nobody needs what was before GELU";
  const Node& norm = graph.nodes[3];
  EXPECT_EQ(norm.in[0], graph.nodes[0].out[0]);
  EXPECT_EQ(norm.in[1], graph.nodes[2].out[0]);
  EXPECT_EQ(norm.out.size(), 4u);
}

TEST(Fuse, keeps_what_the_backward_pass_needs) {
  Graph graph = small_model();
  ASSERT_TRUE(differentiate(graph));
  fuse(graph);
  const auto joined = std::ranges::find(graph.nodes, Op::linear_gelu, &Node::op);
  const auto backward = std::ranges::find(graph.nodes, Op::gelu_backward, &Node::op);
  ASSERT_NE(joined, graph.nodes.end());
  ASSERT_NE(backward, graph.nodes.end());
  EXPECT_EQ(joined->out[1], backward->in[1]);
  EXPECT_EQ(std::ranges::count(graph.nodes, Op::cross_entropy_both, &Node::op), 1);
}

// A value that something else reads before the norm, or GELU, does must be there by then.
TEST(Fuse, leaves_alone_what_is_needed_earlier) {
  Builder g({.samples = 1, .positions = 4});
  const ValueId x = g.parameter("x", {4, 8}, normal(1));
  const ValueId weight = g.parameter("weight", {8, 8}, normal(1));
  const ValueId one = g.parameter("one", {8}, constant(1));
  const ValueId sum = g.add(x, x), line = g.linear(sum, weight);
  const ValueId early = g.add(g.relu(line), g.relu(sum));
  g.predict(g.add(early, g.add(g.gelu(line), g.layernorm(sum, one, one))),
            g.input("targets", Dtype::i32, {4}));
  Graph graph = *g.finish();
  const auto before = operations(graph);
  fuse(graph);
  EXPECT_EQ(operations(graph), before);
}

// Runs a graph in thought: who wrote each 64 bytes last. Every operand must still be there.
class Shadow {
 public:
  explicit Shadow(const Executable& executable) : executable_(executable) {}

  void run() {
    const Graph& graph = executable_.graph();
    for (const ValueId input : graph.inputs) write(input);
    std::size_t stage = 0;
    for (const Node& node : graph.nodes) {
      if (node.stage != stage) blocks_[Piece::scratch].clear();  // another slice was there
      stage = node.stage;
      for (const ValueId id : node.in) expect(id, node);
      for (std::size_t result = 0; result < node.out.size(); ++result)
        if (node.out[result] != kNone) expect_apart(node, result);
      for (const ValueId id : node.out) write(id);
      for (const ValueId id : node.out) expect(id, node);
    }
    if (graph.losses != kNone) expect(graph.losses, graph.nodes.back());
  }

 private:
  template <class Visit>
  void visit(ValueId id, const Visit& each) {
    const Place& place = executable_.plan().places[id];
    if (place.piece == Piece::none) return;
    const std::size_t bytes = executable_.graph()[id].bytes();
    const MemoryPlan& plan = executable_.plan();
    EXPECT_LE(place.offset + bytes,
              place.piece == Piece::slice ? plan.slice_bytes : plan.scratch_bytes);
    for (std::size_t at = place.offset / 64; at <= (place.offset + bytes - 1) / 64; ++at)
      each(blocks_[place.piece][at]);
  }
  void write(ValueId id) {
    if (id == kNone) return;
    visit(id, [&](ValueId& writer) { writer = id + 1; });
  }
  void expect(ValueId id, const Node& node) {
    if (id == kNone) return;
    visit(id, [&](ValueId& writer) {
      ASSERT_EQ(writer, id + 1) << "%" << id << " is gone before " << row_of(node.op).name;
    });
  }
  // A result lies on an operand only where the operation allows it.
  void expect_apart(const Node& node, std::size_t result) {
    const auto& places = executable_.plan().places;
    for (std::size_t operand = 0; operand < node.in.size(); ++operand) {
      if (node.in[operand] == kNone) continue;
      const Place &a = places[node.out[result]], &b = places[node.in[operand]];
      if (a.piece == Piece::none || a.piece != b.piece || a.offset != b.offset) continue;
      const auto& reuses = row_of(node.op).reuses;
      EXPECT_TRUE(std::ranges::any_of(reuses, [&](const OpRow::Reuse& one) {
        return one.result == result && one.operand == operand;
      })) << row_of(node.op).name;
    }
  }

  const Executable& executable_;
  std::map<Piece, std::map<std::size_t, ValueId>> blocks_;
};

TEST(MemoryPlan, NothingIsOverwrittenThatIsStillNeeded) {
  for (const bool fuses : {true, false})
    for (const std::int64_t channels : {8, 24})
      for (const Purpose purpose : {Purpose::train, Purpose::forward}) {
        const auto made = compile(small_model(3, channels), purpose, {.fuse = fuses});
        ASSERT_TRUE(made);
        Shadow(**made).run();
      }
}

TEST(MemoryPlan, ValuesThatAreNeverNeededTogetherShareTheirPlaces) {
  const auto made = compile(small_model(), Purpose::forward);
  ASSERT_TRUE(made);
  const Graph& graph = (*made)->graph();
  std::size_t all = 0;
  for (const Value& value : graph.values)
    if (value.role == Role::interim) all += value.bytes();
  EXPECT_LT((*made)->plan().scratch_bytes + (*made)->plan().slice_bytes, all);
  const auto trains = compile(small_model(), Purpose::train);
  EXPECT_GT((*trains)->plan().slice_bytes, (*made)->plan().slice_bytes)
      << "what backward needs is kept";
}

}  // namespace
}  // namespace gpunode::graph
