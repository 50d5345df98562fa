// Model code of an embedder that is wrong in one place: each mistake is an error that names it.
#include "kernels/model/model_code.hpp"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "kernels/model/registry.hpp"
#include "kernels/ops/backend.hpp"
#include "runtime/base/thrown_error.hpp"

namespace gpunode::model {
namespace {

// A model of eight weights and a bias, whose description a test may spoil.
class Odd : public Model {
 public:
  std::string own_kind = "odd";
  std::vector<ParameterSpec> specs{{"weight", {2, 4}, true}, {"bias", {1}, false}};
  std::vector<SampleField> fields = {{"text", SampleDtype::u8, 9}};
  std::size_t count = 9, tokens = 1, values = 256;
  std::vector<ElementRange> backward, forward;
  std::function<Result<std::unique_ptr<Program>>()> make = [] {
    return Result<std::unique_ptr<Program>>(nullptr);
  };

  std::string kind() const override { return own_kind; }
  std::string name() const override { return "odd"; }
  Settings config() const override { return {}; }
  const std::vector<ParameterSpec>& parameters() const override { return specs; }
  std::size_t parameter_count() const override { return count; }
  std::vector<SampleField> sample_fields() const override { return fields; }
  std::size_t tokens_per_sample() const override { return tokens; }
  std::size_t vocabulary() const override { return values; }
  void initialise(std::uint64_t, std::span<float>) const override {}
  std::uint64_t working_bytes(int, std::size_t) const override { return 0; }
  std::vector<ElementRange> stages() const override { return backward; }
  std::vector<ElementRange> forward_stages() const override { return forward; }
  Result<std::unique_ptr<Program>> program(ops::Backend&, int) const override { return make(); }
};

// Whom no code here asks for anything.
class NoBackend : public ops::Backend {
 public:
  const tensor::Device& device() const override { return device_; }
  const ops::Capabilities& capabilities() const override { return capabilities_; }
  const ops::Operations& operations() const override { return operations_; }
  std::shared_ptr<tensor::Memory> memory() const override { return nullptr; }
  Result<std::unique_ptr<tensor::Stream>> open_stream() override {
    return std::unique_ptr<tensor::Stream>();
  }
  Result<void> upload(tensor::Stream&, ByteView, void*) override { return {}; }
  Result<void> download(tensor::Stream&, const void*, MutableByteView) override { return {}; }
  Result<void> copy(tensor::Stream&, const void*, void*, std::size_t) override { return {}; }
  Result<void> clear(tensor::Stream&, void*, std::size_t) override { return {}; }
  Result<std::unique_ptr<tensor::Event>> record(tensor::Stream&) override {
    return std::unique_ptr<tensor::Event>();
  }
  Result<void> wait(tensor::Stream&, const tensor::Event&, tensor::WaitSite) override { return {}; }

 private:
  tensor::Device device_;
  ops::Capabilities capabilities_;
  ops::Operations operations_;
};

class NoProgram : public Program {
 public:
  bool throws = false;
  Result<void> load(std::span<const float>) override { return {}; }
  Result<LossSum> gradient(int, std::span<const Sample>, std::span<float>) override {
    return LossSum{};
  }
  Result<Evaluation> evaluate(int, std::span<const Sample>) override { return Evaluation{}; }
  Result<std::unique_ptr<Session>> session() override {
    if (throws) throw std::runtime_error("my session failed");
    return std::unique_ptr<Session>();
  }
};

void expect_error(const Result<void>& done, ErrorCode code, const std::string& words) {
  ASSERT_FALSE(done) << words;
  EXPECT_EQ(done.error().code, code) << done.error().message();
  EXPECT_NE(done.error().detail.find(words), std::string::npos) << done.error().detail;
}

// What validate says once `spoil` has had its way.
void expect_wrong(const std::function<void(Odd&)>& spoil, const std::string& words) {
  Odd model;
  spoil(model);
  expect_error(validate(model), ErrorCode::invalid_argument, words);
}

TEST(Validate, TakesADescriptionThatFitsTogether) {
  Odd model;
  EXPECT_TRUE(validate(model));
  model.backward = {{8, 1}, {0, 8}};
  model.forward = {{0, 8}, {8, 1}};
  EXPECT_TRUE(validate(model));
  model.specs.push_back({"scalar", {}, false});
  model.count = 10;
  model.backward = model.forward = {};
  EXPECT_TRUE(validate(model));
}

TEST(Validate, NamesCountsThatDoNotFit) {
  expect_wrong([](Odd& odd) { odd.count = 0; }, "parameter_count() is 0, but");
  expect_wrong([](Odd& odd) { odd.count = 8; }, "have 9 elements");
  expect_wrong([](Odd& odd) { odd.count = 10; }, "have 9 elements");
  expect_wrong([](Odd& odd) { odd.specs = {}; }, "no parameters");
  expect_wrong([](Odd& odd) { odd.specs[0].shape = {-4}; }, "the extent -4");
  expect_wrong([](Odd& odd) { odd.specs[0].shape = {2, 0}; }, "the extent 0");
  const std::int64_t large = std::int64_t{1} << 40;
  expect_wrong([&](Odd& odd) { odd.specs[0].shape = {large, large}; }, "can be counted");
  const std::int64_t most = std::int64_t{1} << 57;
  expect_wrong(
      [&](Odd& odd) {
        odd.specs = {{"a", {most}}, {"b", {most}}, {"c", {most}}};
      },
      "can be counted");
  expect_wrong([](Odd& odd) { odd.fields.clear(); }, "sample_fields() is empty");
  expect_wrong([](Odd& odd) { odd.fields[0].count = 0; }, "the sample's field 'text'");
  expect_wrong([](Odd& odd) { odd.fields[0].name.clear(); }, "has no name");
  expect_wrong([](Odd& odd) { odd.tokens = 0; }, "tokens_per_sample() is 0");
  expect_wrong([](Odd& odd) { odd.values = 0; }, "vocabulary() is 0");
}

TEST(Validate, WantsBuffersBehindAllThatIsTrained) {
  expect_wrong([](Odd& odd) { odd.specs[0].kind = ParameterKind::buffer; }, "has the momentum 0");
  expect_wrong(
      [](Odd& odd) {
        odd.specs[0].kind = ParameterKind::buffer;
        odd.specs[0].momentum = 0.1f;
      },
      "parameter 'bias' follows a buffer");
  Odd odd;
  odd.specs[1].kind = ParameterKind::buffer;
  odd.specs[1].momentum = 1;
  EXPECT_TRUE(validate(odd));
}

TEST(Validate, NamesParametersThatACheckpointCouldNotTellApart) {
  expect_wrong([](Odd& odd) { odd.specs[1].name = "weight"; }, "two parameters are named 'weight'");
  expect_wrong([](Odd& odd) { odd.specs[1].name = ""; }, "has no name");
}

TEST(Validate, NamesStagesThatLeaveOutElementsOrNameThemTwice) {
  const auto both = [](std::vector<ElementRange> stages) {
    return [stages](Odd& odd) { odd.backward = odd.forward = stages; };
  };
  expect_wrong(both({{0, 8}}), "leaves out the elements from 8");
  expect_wrong(both({{0, 8}, {7, 2}}), "begins at 7");
  expect_wrong(both({{0, 8}, {8, 2}}), "begins at 8");
  expect_wrong([](Odd& odd) { odd.backward = {{0, 9}}; }, "both do, or neither");
  expect_wrong(
      [](Odd& odd) {
        odd.backward = {{0, 8}, {8, 1}};
        odd.forward = {{8, 1}, {0, 8}};
      },
      "ascending order");
}

// Registers a factory under a name of its own and makes the model.
Result<void> made_by(const std::string& kind, Factory factory) {
  auto registered = register_model(kind, std::move(factory));
  if (!registered) return registered;
  auto made = make_model(kind, {});
  if (!made) return made.error();
  return {};
}

TEST(Registry, TellsWhatAFactoryThrowsAndThatItGaveNull) {
  using Made = Result<std::unique_ptr<Model>>;
  expect_error(
      made_by("throws", [](const Settings&) -> Made { throw std::runtime_error("my settings"); }),
      ErrorCode::internal, "model 'throws': its code threw: my settings");
  expect_error(made_by("throws-int", [](const Settings&) -> Made { throw 42; }),
               ErrorCode::internal, "no std::exception");
  expect_error(made_by("no-memory", [](const Settings&) -> Made { throw std::bad_alloc(); }),
               ErrorCode::out_of_memory, "ran out of memory");
  expect_error(made_by("null", [](const Settings&) -> Made { return std::unique_ptr<Model>(); }),
               ErrorCode::internal, "returned null");
}

TEST(Registry, RefusesAModelWhoseDescriptionCannotBeRight) {
  using Made = Result<std::unique_ptr<Model>>;
  const auto factory = [](const std::string& kind, std::size_t count) {
    return [=](const Settings&) -> Made {
      auto odd = std::make_unique<Odd>();
      odd->own_kind = kind;
      odd->count = count;
      return std::unique_ptr<Model>(std::move(odd));
    };
  };
  EXPECT_TRUE(made_by("odd", factory("odd", 9)));
  EXPECT_TRUE(made_by("odd-alias", factory("odd", 9))) << "config() makes it again as 'odd'";
  expect_error(made_by("odd-kind", factory("another", 9)), ErrorCode::invalid_argument,
               "its kind() is not registered: unknown model kind 'another'");
  expect_error(made_by("odd-count", factory("odd-count", 0)), ErrorCode::invalid_argument,
               "model 'odd-count': parameter_count() is 0");
}

TEST(ModelCode, IsNeverANullProgramOrSession) {
  Odd model;
  NoBackend none;
  auto null = make_program(model, none, 1);
  ASSERT_FALSE(null);
  EXPECT_NE(null.error().detail.find("Model::program returned null"), std::string::npos);
  model.make = []() -> Result<std::unique_ptr<Program>> { throw 42; };
  auto thrown = make_program(model, none, 1);
  ASSERT_FALSE(thrown);
  EXPECT_NE(thrown.error().detail.find("Model::program threw"), std::string::npos);

  NoProgram program;
  auto session = make_session(program);
  ASSERT_FALSE(session);
  EXPECT_NE(session.error().detail.find("Program::session returned null"), std::string::npos);
  program.throws = true;
  session = make_session(program);
  ASSERT_FALSE(session);
  EXPECT_NE(session.error().detail.find("my session failed"), std::string::npos);
}

TEST(ModelCode, AnErrorThatWasThrownIsThatError) {
  const auto failed = guarded("the model", []() -> Result<int> {
    throw ThrownError({ErrorCode::unavailable, "data: it was cut short"});
  });
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::unavailable);
  EXPECT_EQ(failed.error().detail, "data: it was cut short");
}

}  // namespace
}  // namespace gpunode::model
