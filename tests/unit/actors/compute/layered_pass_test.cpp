#include "actors/compute/layered_pass.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <new>

#include "kernels/cpu/cpu_backend.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::compute {
namespace {

using collective::Tree;
using collective::TreeNode;

constexpr std::size_t kCount = 50000;  // parameters
constexpr std::size_t kElements = kCount + model::kTailElements;
constexpr std::size_t kForwardStages = 2;

// A value of a slice's gradient: of many sizes, so that another order of additions shows.
float value(std::uint64_t slice, std::size_t element) {
  const std::uint64_t bits = mix(slice, element);
  return static_cast<float>(static_cast<std::int64_t>(bits >> 8)) * (bits % 3 == 0   ? 1e-12f
                                                                     : bits % 3 == 1 ? 1e-18f
                                                                                     : 1e-6f);
}

// Its slices are told apart by their first sample's number.
class FakeProgram : public model::Program {
 public:
  explicit FakeProgram(std::vector<model::ElementRange> stages) : stages_(std::move(stages)) {}
  Result<void> load(std::span<const float>) override { return {}; }
  Result<model::LossSum> gradient(int, std::span<const model::Sample> samples,
                                  std::span<float> sum) override {
    fill(samples[0].index, 0, sum);
    return tail(samples[0].index);
  }
  Result<model::Evaluation> evaluate(int, std::span<const model::Sample>) override {
    return model::Evaluation{};
  }
  Result<std::unique_ptr<model::Session>> session() override {
    return {ErrorCode::unsupported, "none"};
  }
  void make_slots(std::size_t count) override {
    if (slots_.size() < count) slots_.resize(count);
  }
  Result<model::LossSum> forward(int, std::size_t slot, std::size_t stage,
                                 std::span<const model::Sample> samples) override {
    if (stage == 0) slots_[slot] = {samples[0].index, 0, 0};
    EXPECT_EQ(slots_[slot].slice, samples[0].index);
    EXPECT_EQ(slots_[slot].forwarded++, stage) << "stages come in order, one at a time";
    return stage + 1 == kForwardStages ? tail(samples[0].index) : model::LossSum{};
  }
  Result<void> backward(int, std::size_t slot, std::size_t stage, std::span<float> part) override {
    EXPECT_EQ(slots_[slot].forwarded, kForwardStages);
    EXPECT_EQ(slots_[slot].next++, stage) << "stages come in order, one at a time";
    if (stage == fails_at) return {ErrorCode::out_of_memory, "as planned"};
    if (slots_[slot].slice == throws_at_slice && stage == 1) throw std::bad_alloc();
    EXPECT_EQ(part.size(), stages_[stage].count);
    fill(slots_[slot].slice, stages_[stage].first, part);
    return {};
  }
  std::size_t fails_at = 99;
  std::uint64_t throws_at_slice = 99;

 private:
  static model::LossSum tail(std::uint64_t slice) {
    return {value(slice, kCount), value(slice, kCount + 1)};
  }
  static void fill(std::uint64_t slice, std::size_t first, std::span<float> part) {
    for (std::size_t i = 0; i < part.size(); ++i) part[i] = value(slice, first + i);
  }
  struct Slot {
    std::uint64_t slice = 0;
    std::size_t next = 0, forwarded = 0;
  };
  std::vector<model::ElementRange> stages_;
  std::vector<Slot> slots_;
};

float sum_of(const Tree& tree, TreeNode node, std::size_t element) {
  const auto children = tree.children(node);
  if (children.empty()) return value(node.index, element);
  float sum = sum_of(tree, children[0], element);
  for (std::size_t i = 1; i < children.size(); ++i) sum += sum_of(tree, children[i], element);
  return sum;
}

std::shared_ptr<std::vector<float>> whole(const Tree& tree, TreeNode node) {
  auto sum = std::make_shared<std::vector<float>>(kElements);
  for (std::size_t i = 0; i < kElements; ++i) (*sum)[i] = sum_of(tree, node, i);
  return sum;
}

PassNode node_of(const Tree& tree, TreeNode node, const std::vector<TreeNode>& kept) {
  PassNode made;
  made.task.node = node;
  made.task.kept = kept;
  made.task.wanted = true;
  made.sum = std::make_shared<Sum>(Sum{std::make_shared<std::vector<float>>(kElements, -7.0f)});
  for (TreeNode below : kept)
    made.task.kept_sums.push_back(std::make_shared<Sum>(Sum{whole(tree, below)}));
  for (std::uint32_t slice = tree.first_slice(node);
       slice < tree.first_slice(node) + tree.width(node.level); ++slice) {
    bool is_kept = false;
    for (TreeNode below : kept) {
      const std::uint32_t first = tree.first_slice(below);
      is_kept = is_kept || (slice >= first && slice < first + tree.width(below.level));
    }
    if (is_kept) continue;
    made.task.slices.push_back(slice);
    made.samples.push_back({model::Sample{slice, {}}});
  }
  return made;
}

const std::vector<model::ElementRange> kStages = {{40000, 10000}, {5, 39995}, {0, 5}};

LayeredPass::Options options_of(FakeProgram& program, WorkerPool& workers, Device& device,
                                const std::vector<model::ElementRange>& stages, const Tree& tree) {
  return {&program, &workers, &device, stages, kForwardStages, kCount, tree};
}

// Runs the pass; every element is told once, and is right when it is told.
void check(const Tree& tree, const std::vector<model::ElementRange>& stages, int workers,
           const std::vector<PassNode>& nodes) {
  FakeProgram program(stages);
  WorkerPool pool(workers);
  const auto backend = cpu::open_backend();
  const auto device = *Device::open(*backend, pool);
  LayeredPass pass(options_of(program, pool, *device, stages, tree));
  std::mutex mutex;
  std::vector<std::vector<int>> told(nodes.size(), std::vector<int>(kElements));
  auto done = pass.run(nodes, [&](std::size_t node, std::size_t first, std::size_t count) {
    std::lock_guard lock(mutex);
    for (std::size_t i = first; i < first + count; ++i) {
      ++told[node][i];
      ASSERT_EQ((*nodes[node].sum->host)[i], sum_of(tree, nodes[node].task.node, i)) << i;
    }
  });
  ASSERT_TRUE(done);
  for (const auto& times : told)
    EXPECT_EQ(std::count(times.begin(), times.end(), 1), static_cast<std::ptrdiff_t>(kElements));
}

TEST(LayeredPass, tells_every_range_of_a_node_once_with_the_bits_of_its_tree) {
  const Tree tree = Tree::of_slices(12);
  for (int workers : {1, 2, 3, 5}) {
    check(tree, kStages, workers, {node_of(tree, tree.root(), {})});
    check(tree, kStages, workers, {node_of(tree, {2, 1}, {}), node_of(tree, {0, 0}, {})});
  }
}

TEST(LayeredPass, adds_slices_to_sums_that_were_kept) {
  const Tree tree = Tree::of_slices(8);
  for (int workers : {1, 4}) {
    check(tree, kStages, workers, {node_of(tree, tree.root(), {{2, 1}, {0, 2}})});
    check(tree, kStages, workers, {node_of(tree, {1, 0}, {{0, 1}}), node_of(tree, {2, 1}, {})});
  }
}

TEST(LayeredPass, takes_a_model_that_knows_no_stages_as_one) {
  const Tree tree = Tree::of_slices(4);
  check(tree, {}, 2, {node_of(tree, tree.root(), {})});
  check(tree, {}, 2, {node_of(tree, {0, 3}, {}), node_of(tree, {0, 1}, {})});
}

TEST(LayeredPass, tells_a_stage_before_the_next_ones_are_computed) {
  const Tree tree = Tree::of_slices(4);
  FakeProgram program(kStages);
  program.fails_at = 2;
  WorkerPool pool(1);
  const auto backend = cpu::open_backend();
  const auto device = *Device::open(*backend, pool);
  LayeredPass pass(options_of(program, pool, *device, kStages, tree));
  const std::vector<PassNode> nodes = {node_of(tree, tree.root(), {})};
  std::vector<std::size_t> told;
  auto done =
      pass.run(nodes, [&](std::size_t, std::size_t first, std::size_t) { told.push_back(first); });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(told, (std::vector<std::size_t>{40000, 5}));
  program.fails_at = 99;
  EXPECT_TRUE(pass.run(nodes, [](std::size_t, std::size_t, std::size_t) {})) << "usable again";
}

TEST(LayeredPass, a_lane_that_throws_ends_the_others_that_wait_for_its_part_and_is_heard_of) {
  const Tree tree = Tree::of_slices(4);
  FakeProgram program(kStages);
  WorkerPool pool(3);
  const auto backend = cpu::open_backend();
  const auto device = *Device::open(*backend, pool);
  LayeredPass pass(options_of(program, pool, *device, kStages, tree));
  const std::vector<PassNode> nodes = {node_of(tree, tree.root(), {})};
  const auto nothing = [](std::size_t, std::size_t, std::size_t) {};
  for (std::uint64_t slice = 0; slice < 4; ++slice) {
    program.throws_at_slice = slice;
    EXPECT_THROW((void)pass.run(nodes, nothing), std::bad_alloc);
  }
  program.throws_at_slice = 99;
  EXPECT_TRUE(pass.run(nodes, nothing)) << "usable again";
  EXPECT_EQ(*nodes[0].sum->host, *whole(tree, tree.root()));
}

}  // namespace
}  // namespace gpunode::compute
