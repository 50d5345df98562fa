// A model is an embedder's code. Each mistake that it can make while it is trained is an error of the
// job that names it, never the end of the process; one that hangs is a lost device.
#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>

#include <atomic>
#include <cmath>
#include <future>
#include <limits>
#include <stdexcept>

#include "actors/compute/trainer_actor.hpp"
#include "actors/messages.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/model.hpp"
#include "runtime/dataset/text_dataset.hpp"
#include "tests/parity/letters_source.hpp"

namespace gpunode::compute {
namespace {

using model::LossSum;
using model::Sample;

constexpr std::size_t kContext = 16, kWeights = 4;

// What the model's calls do in place of what is right.
struct Mistakes {
  std::function<void()> initialise, load, slice_flops;
  std::function<Result<std::unique_ptr<model::Program>>()> program;
  std::function<Result<LossSum>(std::size_t samples)> gradient;
  std::function<Result<model::Evaluation>(std::size_t samples)> evaluate;
};

class MistakenProgram final : public model::Program {
 public:
  explicit MistakenProgram(const Mistakes& mistakes) : mistakes_(mistakes) {}
  Result<void> load(std::span<const float>) override {
    if (mistakes_.load) mistakes_.load();
    return {};
  }
  Result<LossSum> gradient(int, std::span<const Sample> samples, std::span<float> sum) override {
    std::ranges::fill(sum, 1.0f);
    if (mistakes_.gradient) return mistakes_.gradient(samples.size());
    return LossSum{1, static_cast<float>(samples.size() * kContext)};
  }
  Result<model::Evaluation> evaluate(int, std::span<const Sample> samples) override {
    if (mistakes_.evaluate) return mistakes_.evaluate(samples.size());
    return model::Evaluation{1, static_cast<double>(samples.size() * kContext)};
  }
  Result<std::unique_ptr<model::Session>> session() override {
    return {ErrorCode::unsupported, "it continues no texts"};
  }

 private:
  const Mistakes& mistakes_;
};

class Mistaken final : public model::Model {
 public:
  Mistakes mistakes;
  std::string kind() const override { return "mistaken"; }
  std::string name() const override { return "mistaken"; }
  model::Settings config() const override { return {}; }
  const std::vector<model::ParameterSpec>& parameters() const override { return parameters_; }
  std::size_t parameter_count() const override { return kWeights; }
  std::vector<SampleField> sample_fields() const override {
    return {{"text", SampleDtype::u8, kContext + 1}};
  }
  std::size_t tokens_per_sample() const override { return kContext; }
  std::size_t vocabulary() const override { return 256; }
  void initialise(std::uint64_t, std::span<float> weights) const override {
    if (mistakes.initialise) mistakes.initialise();
    std::ranges::fill(weights, 0.5f);
  }
  std::uint64_t working_bytes(int, std::size_t) const override { return 0; }
  double slice_flops(std::size_t) const override {
    if (mistakes.slice_flops) mistakes.slice_flops();
    return std::numeric_limits<double>::quiet_NaN();  // which is as good as not known
  }
  Result<std::unique_ptr<model::Program>> program(ops::Backend&, int) const override {
    if (mistakes.program) return mistakes.program();
    return std::unique_ptr<model::Program>(std::make_unique<MistakenProgram>(mistakes));
  }

 private:
  std::vector<model::ParameterSpec> parameters_{{"weight", {kWeights}, true}};
};

class ModelMistakes : public ::testing::Test {
 protected:
  ModelMistakes() {
    options_.spec.train.batch = 8;
    options_.spec.train.slices = 4;
    options_.spec.train.steps = 3;
    auto data = dataset::TextDataset::create(letters_source(),
                                             {.context = kContext, .validation_fraction = 0.1});
    options_.reader.emplace(*data, ingest::SliceSettings{1, 8, 4});
    options_.model = model_;
    options_.devices = {&device_};
    options_.user = "the job";
    options_.clock = &clock_;
    options_.workers = 2;
  }

  // The job's part: what the trainer tells until it fails, or has evaluated.
  std::string failure_of(bool evaluates = false) {
    caf::scoped_actor job(system_);
    const caf::actor trainer =
        spawn_trainer(system_, caf::actor_cast<caf::actor>(job.ptr()), options_);
    std::string failure;
    bool told = false;
    while (!told)
      job->receive(
          [&](const TrainerReady& ready) {
            EXPECT_EQ(ready.slice_flops, 0) << "no number is not known";
            if (evaluates) {
              job->send(trainer, Evaluate{});
              return;
            }
            job::Compute compute;
            compute.step = 1;
            compute.nodes = {collective::Tree::of_slices(4).root()};
            job->send(trainer, compute);
          },
          [&](const TrainerFailed& failed) { told = true, failure = failed.error.message(); },
          [&](const Evaluated& evaluated) {
            told = true;
            if (!evaluated.loss) failure = evaluated.loss.error().message();
          },
          [&](const job::PartialRange&) { told = true; },
          caf::after(std::chrono::seconds(60)) >>
              [&] {
                told = true;
                failure = "nothing was told";
              });
    job->send(trainer, Shutdown{});
    job->wait_for(trainer);
    return failure;
  }
  void expect(const std::string& words, bool evaluates = false) {
    const std::string failure = failure_of(evaluates);
    EXPECT_NE(failure.find(words), std::string::npos) << "'" << failure << "' tells " << words;
    model_->mistakes = {};
    EXPECT_EQ(failure_of(evaluates), "") << "the same process goes on with another job";
  }

  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  SystemClock clock_;
  std::unique_ptr<ops::Backend> backend_ = cpu::open_backend();
  NodeDevice device_{"cpu", *backend_};
  std::shared_ptr<Mistaken> model_ = std::make_shared<Mistaken>();
  Trainer::Options options_;
};

[[noreturn]] void throw_words() {
  throw std::runtime_error("my own words");
}

TEST_F(ModelMistakes, ANullProgram) {
  model_->mistakes.program = [] { return std::unique_ptr<model::Program>(); };
  expect("Model::program returned null");
}
TEST_F(ModelMistakes, AProgramThatCannotBeMade) {
  model_->mistakes.program = []() -> Result<std::unique_ptr<model::Program>> { throw_words(); };
  expect("my own words");
}
TEST_F(ModelMistakes, InitialiseThrows) {
  model_->mistakes.initialise = throw_words;
  expect("my own words");
}
TEST_F(ModelMistakes, LoadThrows) {
  model_->mistakes.load = throw_words;
  expect("my own words");
}
TEST_F(ModelMistakes, ItsCountOfFlopsThrows) {
  model_->mistakes.slice_flops = throw_words;
  expect("my own words");
}
// Not in the first call, which is the fingerprint's, but on a worker.
TEST_F(ModelMistakes, AGradientThrowsOnAWorker) {
  auto calls = std::make_shared<std::atomic<int>>(0);
  model_->mistakes.gradient = [calls](std::size_t samples) -> Result<LossSum> {
    if (++*calls > 3) throw_words();
    return LossSum{1, static_cast<float>(samples * kContext)};
  };
  expect("my own words");
}
TEST_F(ModelMistakes, AGradientThrowsWhatIsNoException) {
  model_->mistakes.gradient = [](std::size_t) -> Result<LossSum> { throw 42; };
  expect("no std::exception");
}
TEST_F(ModelMistakes, WeightsThatNoSamplesHave) {
  for (const float weight : {-1.0f, 33.0f, std::numeric_limits<float>::quiet_NaN(),
                             std::numeric_limits<float>::infinity()}) {
    model_->mistakes.gradient = [=](std::size_t) { return LossSum{1, weight}; };
    expect("for 2 samples of 16 tokens");
  }
}
TEST_F(ModelMistakes, AnEvaluationThatCountsTooMuch) {
  model_->mistakes.evaluate = [](std::size_t samples) {
    return model::Evaluation{1, static_cast<double>(samples * kContext) + 1};
  };
  expect("the model's evaluation told a weight of", true);
  model_->mistakes.evaluate = [](std::size_t) { return model::Evaluation{1, 2, 3}; };
  expect("told 3 right of 2", true);
}
TEST_F(ModelMistakes, AnEvaluationThatThrows) {
  model_->mistakes.evaluate = [](std::size_t) -> Result<model::Evaluation> { throw_words(); };
  expect("my own words", true);
}

// Nothing gives back a thread that hangs: the device is lost, and whoever watches is told whose work
// it was. (What a node does then: tests/process/device_test.py.)
TEST_F(ModelMistakes, OneThatHangsIsALostDevice) {
  std::promise<void> hangs, release;
  std::atomic<bool> first = true;
  auto released = std::make_shared<std::shared_future<void>>(release.get_future());
  model_->mistakes.gradient = [&, released](std::size_t samples) {
    if (first.exchange(false)) {
      hangs.set_value();
      released->wait();
    }
    return LossSum{1, static_cast<float>(samples * kContext)};
  };
  std::string lost;
  device_.on_lost(
      [&](const NodeDevice& device, const std::string&, const std::set<std::string>& users) {
        for (const std::string& user : users) lost += device.id() + " to " + user;
      });
  auto running = std::async(std::launch::async, [&] { return failure_of(); });
  hangs.get_future().wait();
  Time now{};
  for (int look = 0; look < 10 && lost.empty(); ++look)
    device_.look_for_hangs(now += std::chrono::seconds(1), std::chrono::seconds(5));
  EXPECT_EQ(lost, "cpu to the job");
  EXPECT_EQ(device_.condition(), DeviceCondition::lost);
  release.set_value();
  running.wait();
}

}  // namespace
}  // namespace gpunode::compute
