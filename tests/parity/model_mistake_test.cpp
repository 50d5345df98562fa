// What a model's code can do wrong that its graph does not show before samples are read: each is an
// error that names it, on the way to a device and never in a kernel.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/graph_model.hpp"

namespace gpunode::model {
namespace {

enum class Mistake { none, target, no_target, token, layers, classes };

constexpr std::int64_t kTokens = 4, kRows = 17, kClasses = 3;

// Four tokens, one class.
class Careless final : public GraphModel {
 public:
  explicit Careless(Mistake mistake) : mistake_(mistake) {}
  Result<void> open() { return prepare(); }

  void forward(graph::Builder& g) const override {
    const graph::ValueId tokens = g.input("tokens", graph::Dtype::i32, {kTokens});
    const graph::ValueId targets = g.input("targets", graph::Dtype::i32, {1});
    graph::ValueId x =
        g.mean_pool(g.embedding(tokens, g.parameter("table", {kRows, 8}, graph::normal(1))));
    if (mistake_ == Mistake::layers && g.samples() > 1) x = linear(g, {"more", 8, 8, 0.1f}, x);
    g.predict(linear(g, {"head", kClasses, 8, 0.1f}, x), targets);
  }
  Result<void> read(const Sample& sample, std::span<const InputPart> inputs) const override {
    for (std::int32_t& token : inputs[0].tokens()) token = 5;
    if (mistake_ == Mistake::token) inputs[0].tokens()[2] = kRows;
    if (mistake_ != Mistake::no_target) inputs[1].tokens()[0] = 1;
    if (mistake_ == Mistake::target && sample.index == 1) inputs[1].tokens()[0] = kClasses;
    return {};
  }
  std::string kind() const override { return "careless"; }
  std::string name() const override { return "careless"; }
  Settings config() const override { return {}; }
  std::vector<SampleField> sample_fields() const override {
    return {{"label", SampleDtype::i32, 1}};
  }
  std::size_t tokens_per_sample() const override { return 1; }
  std::size_t vocabulary() const override {
    return mistake_ == Mistake::classes ? kClasses + 1 : kClasses;
  }
  std::int64_t context() const override { return kTokens; }
  bool generates() const override { return false; }

 private:
  Mistake mistake_;
};

// What becomes of a slice of two samples: "" or an error's text.
std::string outcome(Mistake mistake) {
  Careless model(mistake);
  if (auto opened = model.open(); !opened) return opened.error().message();
  const auto backend = cpu::open_backend();
  auto program = model.program(*backend, 1);
  if (!program) return program.error().message();
  std::vector<float> weights(model.parameter_count()), gradient(model.parameter_count());
  model.initialise(1, weights);
  EXPECT_TRUE((*program)->load(weights));
  const std::vector<std::uint8_t> bytes(4);
  const std::vector<Sample> samples = {{0, bytes}, {1, bytes}};
  const auto done = (*program)->gradient(0, samples, gradient);
  return done ? "" : done.error().message();
}

TEST(ModelMistake, IsNamedBeforeAKernelMeetsIt) {
  EXPECT_EQ(outcome(Mistake::none), "");
  const std::pair<Mistake, const char*> kMistakes[] = {
      {Mistake::target, "sample 1: input 'targets' is given 3, and takes -1 to 2"},
      {Mistake::no_target, "input 'targets' is left out"},
      {Mistake::token, "input 'tokens' is given 17, and takes 0 to 16"},
      {Mistake::layers, "declares other parameters"},
      {Mistake::classes, "vocabulary() is 4"},
  };
  for (const auto& [mistake, text] : kMistakes)
    EXPECT_NE(outcome(mistake).find(text), std::string::npos) << outcome(mistake);
}

}  // namespace
}  // namespace gpunode::model
