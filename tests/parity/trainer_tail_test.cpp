// What stands behind a gradient: the loss's weight in a model that leaves tokens out of its loss,
// and the running statistics of one with batch normalisation. However the slices are spread, and
// whether the update is speculated or not, the state is the same, and divided by what counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "actors/compute/trainer.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/graph_model.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/dataset/table_dataset.hpp"
#include "tests/parity/rows_source.hpp"

namespace gpunode::compute {
namespace {

using collective::TreeNode;

constexpr std::uint32_t kSlices = 4;
constexpr std::uint64_t kSteps = 3;
constexpr std::size_t kFeatures = 24, kClasses = 3;

// Tells the class of each of a row's features: of those below a half, which alone count.
class Partial final : public model::GraphModel {
 public:
  static std::shared_ptr<model::Model> open() {
    auto model = std::make_shared<Partial>();
    const auto done = model->prepare();
    EXPECT_TRUE(done) << done.error().message();
    return model;
  }
  void forward(graph::Builder& g) const override {
    constexpr std::int64_t F = kFeatures, C = 16;
    const graph::ValueId x = g.input("features", graph::Dtype::f32, {F, 1});
    const graph::ValueId targets = g.input("targets", graph::Dtype::i32, {F});
    graph::ValueId y = model::linear(g, {"first", C, 1, 1.0f}, x);
    y = model::linear(g, {"last", kClasses, C, 0.3f}, g.tanh(y));
    g.predict(y, targets);
  }
  Result<void> read(const model::Sample& sample,
                    std::span<const model::InputPart> inputs) const override {
    std::memcpy(inputs[0].data, sample.bytes.data(), kFeatures * sizeof(float));
    std::transform(inputs[0].values().begin(), inputs[0].values().end(), inputs[1].tokens().begin(),
                   target_of);
    return {};
  }
  static std::int32_t target_of(float feature) {
    return feature < 0.5f ? static_cast<std::int32_t>(feature * 6) : -1;
  }
  std::string kind() const override { return "partial"; }
  std::string name() const override { return "partial"; }
  model::Settings config() const override { return {}; }
  std::vector<SampleField> sample_fields() const override {
    return {{"features", SampleDtype::f32, kFeatures}, {"label", SampleDtype::i32, 1}};
  }
  std::size_t tokens_per_sample() const override { return kFeatures; }
  std::size_t vocabulary() const override { return kClasses; }
  std::int64_t context() const override { return kFeatures; }
  bool generates() const override { return false; }
};

std::vector<float> floats_of(const SharedBytes& bytes) {
  std::vector<float> floats(bytes.view.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.view.data(), bytes.view.size());
  return floats;
}

class TrainerTail : public ::testing::TestWithParam<std::string> {
 protected:
  TrainerTail() {
    spec_.train.batch = 10;
    spec_.train.slices = kSlices;
    spec_.train.steps = kSteps;
    spec_.train.clip = 100;
    spec_.train.warmup_steps = 1;
    const model::Settings settings = {
        {"height", "4"}, {"width", "3"}, {"channels", "2"}, {"classes", "3"}, {"filters", "4"}};
    model_ = GetParam() == "partial"
                 ? Partial::open()
                 : std::shared_ptr<model::Model>(*model::make_model("resnet", settings));
    data_ = *dataset::TableDataset::create(rows_source(kFeatures, kClasses), 0.2);
  }

  std::unique_ptr<Trainer> trainer() {
    auto made = Trainer::create(
        {.model = model_,
         .devices = {&device_},
         .spec = spec_,
         .reader = ingest::SliceReader(data_, {spec_.train.seed, spec_.train.batch, kSlices}),
         .clock = &clock_});
    EXPECT_TRUE(made) << made.error().message();
    return made ? std::move(*made) : nullptr;
  }

  // The sums of these nodes for the next step, added up in their order.
  static std::shared_ptr<std::vector<float>> total_of(Trainer& trainer,
                                                      const std::vector<TreeNode>& nodes) {
    trainer.want(trainer.step() + 1, nodes);
    std::map<TreeNode, collective::SharedFloats> sums;
    std::mutex mutex;
    do {
      const auto done = trainer.compute_some([&](const SumRange& range) {
        std::lock_guard lock(mutex);
        sums.emplace(range.node, range.sum);
      });
      EXPECT_TRUE(done) << done.error().message();
    } while (!trainer.idle());
    auto total = std::make_shared<std::vector<float>>(trainer.element_count());
    for (const auto& [node, sum] : sums)
      for (std::size_t i = 0; i < total->size(); ++i) (*total)[i] += (*sum)[i];
    return total;
  }

  job::JobSpec spec_;
  SystemClock clock_;
  std::unique_ptr<ops::Backend> backend_ = cpu::open_backend();
  NodeDevice device_{"cpu", *backend_};
  std::shared_ptr<const model::Model> model_;
  std::shared_ptr<const dataset::Dataset> data_;
};

TEST_P(TrainerTail, members_and_speculation_do_not_show_in_the_state) {
  auto alone = trainer(), first = trainer(), second = trainer();
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    const auto whole = total_of(*alone, {{2, 0}});
    auto both = total_of(*first, {{1, 0}});
    const auto other = total_of(*second, {{1, 1}});
    for (std::size_t i = 0; i < both->size(); ++i) (*both)[i] += (*other)[i];
    ASSERT_EQ(*whole, *both) << "step " << step;
    for (std::size_t begin = 0; begin < both->size(); begin += 97)
      ASSERT_TRUE(second->update_speculatively(step, both, begin,
                                               std::min<std::size_t>(97, both->size() - begin)));
    const auto report = alone->apply(step, whole);
    ASSERT_TRUE(report);
    EXPECT_FALSE(report->skipped);
    EXPECT_EQ(first->apply(step, both)->state, report->state);
    EXPECT_EQ(second->apply(step, both)->state, report->state);
    EXPECT_FLOAT_EQ(static_cast<float>(report->loss),
                    (*whole)[model_->parameter_count()] / whole->back());
  }
  auto learner = trainer();
  ASSERT_TRUE(learner->install(kSteps, alone->state_bytes()->view));
  EXPECT_EQ(*learner->state_digest(), *alone->state_digest());
  EXPECT_EQ(learner->evaluate()->loss, alone->evaluate()->loss);
}

TEST_P(TrainerTail, moments_of_buffers_stay_zero_while_their_values_follow) {
  auto one = trainer();
  const SharedBytes begun = *one->state_bytes();
  ASSERT_TRUE(one->apply(1, total_of(*one, {{2, 0}})));
  const SharedBytes ended = *one->state_bytes();
  const std::size_t count = model_->parameter_count();
  const std::size_t trained = model::trained_count(model_->parameters());
  EXPECT_EQ(trained < count, GetParam() == "resnet");
  const auto before = floats_of(begun), after = floats_of(ended);
  for (std::size_t at = trained; at < count; ++at) {
    EXPECT_NE(after[at], before[at]) << at;
    EXPECT_EQ(after[count + at], 0);
    EXPECT_EQ(after[2 * count + at], 0);
  }
}

TEST_P(TrainerTail, a_step_in_which_nothing_is_predicted_changes_nothing) {
  auto one = trainer();
  const Digest begun = *one->state_digest();
  auto total = total_of(*one, {{2, 0}});
  total->back() = 0;
  ASSERT_TRUE(one->update_speculatively(1, total, 0, total->size()));
  const auto report = one->apply(1, total);
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->skipped);
  EXPECT_EQ(report->state, begun);
}

TEST_P(TrainerTail, evaluation_is_divided_by_what_counts) {
  auto one = trainer();
  auto program = std::move(*model_->program(*backend_, 1));
  std::vector<float> weights(model_->parameter_count());
  model_->initialise(spec_.train.seed, weights);
  ASSERT_TRUE(program->load(weights));
  model::Evaluation wanted;
  double counted = 0;
  for (std::uint64_t index = 0; index < data_->held_out_count(); ++index) {
    std::vector<std::uint8_t> bytes(data_->sample_bytes());
    data_->read_held_out(index, std::as_writable_bytes(std::span(bytes)));
    const model::Sample sample{index, bytes};
    wanted.loss += program->evaluate(0, std::span(&sample, 1))->loss;
    for (std::size_t at = 0; at < kFeatures; ++at) {
      float feature = 0;
      std::memcpy(&feature, bytes.data() + at * sizeof feature, sizeof feature);
      counted += Partial::target_of(feature) >= 0;
    }
  }
  if (GetParam() == "resnet") counted = static_cast<double>(data_->held_out_count());
  EXPECT_NEAR(one->evaluate()->loss, wanted.loss / counted, 1e-5);
  const auto total = total_of(*one, {{2, 0}});
  EXPECT_LE(total->back(), 10.0f * static_cast<float>(model_->tokens_per_sample()));
  EXPECT_EQ(total->back() < 10.0f * static_cast<float>(model_->tokens_per_sample()),
            GetParam() == "partial");
}

INSTANTIATE_TEST_SUITE_P(Models, TrainerTail, ::testing::Values("partial", "resnet"),
                         [](const auto& given) { return given.param; });

}  // namespace
}  // namespace gpunode::compute
