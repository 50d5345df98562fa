// The trainer's sums have the bits of slices computed one by one and added along the tree, however
// many workers there are, however many slices are under way, and whatever was kept of an older
// plan.
#include "actors/compute/trainer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/block_digest.hpp"
#include "runtime/dataset/text_dataset.hpp"
#include "tests/parity/letters_source.hpp"

namespace gpunode::compute {
namespace {

using collective::Tree;
using collective::TreeNode;

constexpr std::uint32_t kSlices = 8;

// Counts the samples that are read.
class CountedDataset : public dataset::Dataset {
 public:
  explicit CountedDataset(std::shared_ptr<const dataset::Dataset> data)
      : Dataset(data->shared_source(), data->fields()), data_(std::move(data)) {}
  std::uint64_t sample_count() const override { return data_->sample_count(); }
  void read_sample(std::uint64_t index, MutableByteView target) const override {
    ++reads;
    data_->read_sample(index, target);
  }
  std::uint64_t held_out_count() const override { return data_->held_out_count(); }
  void read_held_out(std::uint64_t index, MutableByteView target) const override {
    data_->read_held_out(index, target);
  }
  mutable std::atomic<std::uint64_t> reads{0};

 private:
  std::shared_ptr<const dataset::Dataset> data_;
};

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() {
    spec_.train.batch = 20;  // some slices have three samples, some two
    spec_.train.slices = kSlices;
    spec_.train.steps = 3;
    source_ = letters_source();
    model_ = std::move(*model::make_model(
        "gpt", {{"layers", "2"}, {"channels", "32"}, {"heads", "2"}, {"context", "16"}}));
  }

  ingest::SliceReader reader() const {
    auto data = dataset::TextDataset::create(source_, {.context = 16});
    return {*data, {spec_.train.seed, spec_.train.batch, spec_.train.slices}};
  }

  std::unique_ptr<Trainer> trainer(int workers, std::uint64_t budget) {
    return std::move(*Trainer::create({.model = model_,
                                       .devices = {&device_},
                                       .spec = spec_,
                                       .reader = reader(),
                                       .clock = &clock_,
                                       .workers = workers,
                                       .slice_budget_bytes = budget}));
  }

  // Of the first step, by the definition.
  const std::vector<std::vector<float>>& slices() {
    if (!slices_.empty()) return slices_;
    auto program = std::move(*model_->program(*backend_, 1));
    std::vector<float> weights(model_->parameter_count());
    model_->initialise(spec_.train.seed, weights);
    EXPECT_TRUE(program->load(weights));
    for (std::uint32_t slice = 0; slice < kSlices; ++slice) {
      const ingest::Slice data = reader().read({0, slice});
      std::vector<model::Sample> samples;
      for (std::size_t row = 0; row < data.samples.size(); ++row)
        samples.push_back({data.samples[row].sample,
                           {reinterpret_cast<const std::uint8_t*>(data.sample(row).data()),
                            data.sample(row).size()}});
      std::vector<float>& sum = slices_.emplace_back(weights.size() + model::kTailElements);
      const auto told = *program->gradient(0, samples, std::span(sum).first(weights.size()));
      sum[weights.size()] = told.loss;
      sum.back() = told.weight;
    }
    return slices_;
  }

  std::vector<float> sum_of(const Tree& tree, TreeNode node) {
    const auto children = tree.children(node);
    if (children.empty()) return slices()[node.index];
    std::vector<float> sum = sum_of(tree, children[0]);
    for (std::size_t child = 1; child < children.size(); ++child) {
      const std::vector<float> more = sum_of(tree, children[child]);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + more[i];
    }
    return sum;
  }

  // Computes what is wanted; each node is told from its first element to its last.
  void check(Trainer& trainer, const std::vector<TreeNode>& nodes) {
    trainer.want(1, nodes);
    struct Told {
      collective::SharedFloats sum;
      collective::DataFingerprint data_fingerprint;
      std::uint64_t count = 0;
    };
    std::map<TreeNode, Told> told;
    std::mutex mutex;
    const auto tell = [&](const SumRange& range) {
      std::lock_guard lock(mutex);
      Told& one = told[range.node];
      EXPECT_TRUE(!one.sum || one.sum == range.sum) << "one vector a node";
      one.sum = range.sum;
      one.data_fingerprint = range.data_fingerprint;
      one.count += range.count;
    };
    do {
      ASSERT_TRUE(trainer.compute_some(tell));
    } while (!trainer.idle());
    ASSERT_TRUE(trainer.compute_some(tell)) << "nothing more to tell";
    ASSERT_EQ(told.size(), nodes.size());
    for (const TreeNode& node : nodes) {
      const std::vector<float> wanted = sum_of(trainer.tree(), node);
      const Told& one = told[node];
      ASSERT_EQ(one.count, wanted.size());
      EXPECT_EQ(std::memcmp((*one.sum).data(), wanted.data(), wanted.size() * sizeof(float)), 0);
      collective::DataFingerprint data_fingerprint;
      const std::uint32_t first = trainer.tree().first_slice(node);
      for (std::uint32_t slice = 0; slice < trainer.tree().width(node.level); ++slice) {
        const ingest::Slice data = reader().read({0, first + slice});
        data_fingerprint += collective::DataFingerprint{data.data_fingerprint, data.samples.size()};
      }
      EXPECT_EQ(one.data_fingerprint, data_fingerprint);
    }
  }

  job::JobSpec spec_;
  SystemClock clock_;
  std::unique_ptr<ops::Backend> backend_ = cpu::open_backend();
  NodeDevice device_{"cpu", *backend_};
  std::shared_ptr<const model::Model> model_;
  std::shared_ptr<dataset::TextSource> source_;
  std::vector<std::vector<float>> slices_;
};

TEST_F(TrainerTest, SumsHaveTheBitsOfTheTreeWithAnyLanesAndAnyBudget) {
  const Tree tree = Tree::of_slices(kSlices);
  for (int workers : {1, 2, 3}) {
    for (std::uint64_t budget : {std::uint64_t{1} << 30, std::uint64_t{0}}) {
      check(*trainer(workers, budget), {tree.root()});
      check(*trainer(workers, budget), {{2, 1}, {1, 0}, {0, 3}});
    }
  }
}

TEST_F(TrainerTest, KeptSumsOfAnOlderPlanGiveTheSameBits) {
  const Tree tree = Tree::of_slices(kSlices);
  for (std::uint64_t budget : {std::uint64_t{1} << 30, std::uint64_t{0}}) {
    auto survivor = trainer(2, budget);
    check(*survivor, {{1, 1}, {0, 5}});
    check(*survivor, {{2, 0}, {0, 5}});
    check(*survivor, {tree.root()});
  }
}

TEST_F(TrainerTest, each_step_reads_its_own_samples_and_those_that_it_guesses_for_the_next) {
  constexpr std::uint64_t steps = 60;
  spec_.train.steps = steps;
  auto data =
      std::make_shared<CountedDataset>(*dataset::TextDataset::create(source_, {.context = 16}));
  auto made = Trainer::create(
      {.model = model_,
       .devices = {&device_},
       .spec = spec_,
       .reader = ingest::SliceReader(data, {spec_.train.seed, spec_.train.batch, kSlices}),
       .clock = &clock_,
       .workers = 1});
  ASSERT_TRUE(made) << made.error().message();
  Trainer& trainer = **made;
  for (std::uint64_t step = 1; step <= steps; ++step) {
    trainer.want(step, {{1, 1}});
    trainer.want(step, {{1, 1}, {0, 5}});  // a view has changed
    while (!trainer.idle()) ASSERT_TRUE(trainer.compute_some([](const SumRange&) {}));
    std::vector<float> total(model_->parameter_count() + model::kTailElements);
    total.back() = 1;
    ASSERT_TRUE(trainer.apply(step, collective::SharedFloats::from(std::move(total))));
  }
  // Three slices of at most three samples, and a slice may be read twice where a plan changes.
  EXPECT_LE(data->reads, steps * 3 * 3 * 2);
}

TEST_F(TrainerTest, ReportsAModelThatTheMachineCannotHold) {
  model_ = std::move(*model::make_model(
      "gpt", {{"layers", "1000"}, {"channels", "65536"}, {"heads", "1"}, {"context", "16"}}));
  auto trainer = Trainer::create({.model = model_,
                                  .devices = {&device_},
                                  .spec = spec_,
                                  .reader = reader(),
                                  .clock = &clock_});
  ASSERT_FALSE(trainer);
  EXPECT_EQ(trainer.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(trainer.error().detail.find("gpt 1000x65536"), std::string::npos)
      << trainer.error().detail;
}

TEST_F(TrainerTest, TheStatesDigestIsThatOfItsBytesWithAnyLanes) {
  model_ = std::move(*model::make_model("gpt", {{"layers", "1"}, {"context", "16"}}));
  for (int workers : {1, 3}) {
    auto one = trainer(workers, 0);
    EXPECT_GT(one->state_bytes()->size(), 2 * kDigestBlockBytes);
    EXPECT_EQ(*one->state_digest(), block_digest_of(one->state_bytes()->view));
  }
}

TEST_F(TrainerTest, TheBudgetBoundsTheSlicesUnderWay) {
  const std::uint64_t one = model_->slot_bytes(3);
  EXPECT_EQ(trainer(2, 0)->slice_memory().slices, 2u) << "one a worker at least";
  EXPECT_EQ(trainer(1, std::uint64_t{1} << 30)->slice_memory().slices, kSlices);
  const SliceMemory some = trainer(1, 4 * one)->slice_memory();
  EXPECT_LT(some.slices, 4u);
  EXPECT_EQ(some.activation_bytes, some.slices * one);
  EXPECT_LE(some.activation_bytes + some.gradient_bytes, 4 * one);
}

// The windows that are read hold one letter, those between them are as they were.
TEST_F(TrainerTest, a_long_held_out_part_is_evaluated_on_windows_spread_evenly_over_it) {
  const auto evaluate = [&](std::uint64_t tokens) {
    auto made = Trainer::create({.model = model_,
                                 .devices = {&device_},
                                 .spec = spec_,
                                 .reader = reader(),
                                 .clock = &clock_,
                                 .workers = 2,
                                 .evaluated_tokens = tokens});
    return *(*made)->evaluate();
  };
  const HeldOutLoss whole = evaluate(Trainer::kEvaluatedTokens);
  EXPECT_EQ(whole.samples, 18u) << "299 targets in windows of 16";
  EXPECT_EQ(whole.held_out_samples, 18u);

  Bytes text(3000);
  source_->copy(0, text);
  for (const std::size_t window : {0, 4, 9, 13})
    std::fill_n(text.begin() + 2700 + static_cast<std::ptrdiff_t>(window) * 16, 17, std::byte{97});
  source_ = std::make_shared<dataset::TextSource>(dataset::TextSource::from_memory({{"a", text}}));
  const HeldOutLoss part = evaluate(4 * 16 + 1);
  EXPECT_EQ(part.samples, 4u);
  EXPECT_EQ(part.held_out_samples, 18u);
  std::fill(text.begin() + 2700, text.end(), std::byte{97});
  source_ = std::make_shared<dataset::TextSource>(
      dataset::TextSource::from_memory({{"a", std::move(text)}}));
  EXPECT_NEAR(part.loss, evaluate(Trainer::kEvaluatedTokens).loss, 1e-6);
  EXPECT_EQ(evaluate(0).samples, 1u) << "never none";
}

}  // namespace
}  // namespace gpunode::compute
