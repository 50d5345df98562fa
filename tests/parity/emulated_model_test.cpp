// Whole models by our CUDA kernels under the emulation: a slice's loss and gradient are those of the
// CPU, and no operation that a model uses lacks its kernel.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/model/fingerprint.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/rng.hpp"
#include "tests/parity/emulated_backend.hpp"

namespace gpunode::parity {
namespace {

TEST(EmulatedModel, every_operation_has_a_kernel) {
  EXPECT_EQ(EmulatedBackend().twins().absent(), std::vector<std::string_view>());
}

// What a sample of these fields may hold: letters, numbers from 0 to 1, one of two classes.
std::vector<std::uint8_t> sample_of(const std::vector<SampleField>& fields, std::uint64_t seed) {
  std::vector<std::uint8_t> bytes;
  for (const SampleField& field : fields)
    for (std::uint32_t at = 0; at < field.count; ++at) {
      const std::uint64_t drawn = mix(seed, bytes.size());
      const float number = static_cast<float>(drawn % 1000) / 1000;
      const auto whole = static_cast<std::int32_t>(drawn % 2);
      std::uint8_t place[4];
      const std::size_t size = field.dtype == SampleDtype::u8 ? 1 : 4;
      if (field.dtype == SampleDtype::f32)
        std::memcpy(place, &number, size);
      else if (field.dtype == SampleDtype::i32)
        std::memcpy(place, &whole, size);
      else
        place[0] = static_cast<std::uint8_t>(97 + drawn % 26);
      bytes.insert(bytes.end(), place, place + size);
    }
  return bytes;
}

struct Gradient {
  model::LossSum sum;
  std::vector<float> values;
};

struct Difference {
  double largest = 0, off = 0;  // of the wanted gradient's elements, and from them
};

Difference compare(const Gradient& wanted, const Gradient& found) {
  Difference out;
  for (std::size_t i = 0; i < wanted.values.size(); ++i) {
    out.largest = std::max(out.largest, std::abs(double{wanted.values[i]}));
    out.off = std::max(out.off, std::abs(double{wanted.values[i]} - double{found.values[i]}));
  }
  return out;
}

// A model and three samples of it.
class ModelRun {
 public:
  ModelRun(const std::string& kind, const model::Settings& settings,
           Precision precision = Precision::fp32) {
    auto made = model::make_model(kind, settings);
    EXPECT_TRUE(made) << made.error().message();
    model_ = std::move(*made);
    EXPECT_TRUE(model_->use_precision(precision));
    for (std::uint64_t row = 0; row < 3; ++row)
      bytes_.push_back(sample_of(model_->sample_fields(), row));
    for (std::uint64_t row = 0; row < 3; ++row) samples_.push_back({row, bytes_[row]});
  }

  Gradient gradient(ops::Backend& backend) { return gradients(backend, {3}).front(); }

  // By one program, with the weights that each seed gives, at the same addresses.
  std::vector<Gradient> gradients(ops::Backend& backend, const std::vector<std::uint64_t>& seeds) {
    std::vector<float> weights(model_->parameter_count()), values(model_->parameter_count());
    auto program = model_->program(backend, 1);
    EXPECT_TRUE(program) << program.error().message();
    std::vector<Gradient> out;
    for (const std::uint64_t seed : seeds) {
      model_->initialise(seed, weights);
      EXPECT_TRUE((*program)->load(weights));
      const auto sum = (*program)->gradient(0, samples_, values);
      EXPECT_TRUE(sum) << sum.error().message();
      out.push_back({sum ? *sum : model::LossSum{}, values});
    }
    return out;
  }
  std::size_t stages() const { return model_->stages().size() + model_->forward_stages().size(); }

 private:
  std::unique_ptr<model::Model> model_;
  std::vector<std::vector<std::uint8_t>> bytes_;
  std::vector<model::Sample> samples_;
};

model::Settings settings_of(const std::string& kind) {
  if (kind == "mlp") return {{"features", "6"}, {"classes", "3"}, {"hidden", "5"}};
  if (kind == "resnet")
    return {{"height", "6"}, {"width", "5"}, {"filters", "4"}, {"channels", "1"}};
  model::Settings settings = {
      {"layers", "2"}, {"channels", "24"}, {"heads", "4"}, {"context", "10"}};
  if (kind == "llama") settings["kv_heads"] = "2";
  return settings;
}

class EmulatedModel : public ::testing::TestWithParam<std::string> {};

// Two devices that agree on all that was tried may choose otherwise for a shape that was not.
TEST(EmulatedModel, has_a_fingerprint_with_what_the_device_chooses_by) {
  auto model = model::make_model("gpt", {{"layers", "1"}});
  ASSERT_TRUE(model);
  const std::vector<std::uint8_t> bytes = sample_of((*model)->sample_fields(), 7);
  const std::vector<model::Sample> samples = {{0, bytes}};
  std::vector<model::Fingerprint> found;
  for (const std::string what : {"", "132 multiprocessors", "16 multiprocessors"}) {
    EmulatedBackend backend;
    backend.choose_by(what);
    auto one = model::compute_fingerprint(**model, backend, samples);
    ASSERT_TRUE(one) << one.error().message();
    EXPECT_NE(one->text.find(what), std::string::npos) << one->text;
    for (const model::Fingerprint& other : found) EXPECT_NE(one->digest, other.digest);
    found.push_back(*one);
  }
}

TEST_P(EmulatedModel, has_the_cpus_loss_and_gradient) {
  EmulatedBackend emulation;
  ModelRun run(GetParam(), settings_of(GetParam()));
  const Gradient wanted = run.gradient(*cpu::open_backend()), found = run.gradient(emulation);
  EXPECT_NEAR(found.sum.loss, wanted.sum.loss, 1e-5 * std::abs(wanted.sum.loss));
  EXPECT_EQ(found.sum.weight, wanted.sum.weight);
  const Difference difference = compare(wanted, found);
  EXPECT_GT(difference.largest, 0);
  EXPECT_LT(difference.off, 1e-5 * difference.largest);
  EXPECT_EQ(run.gradient(emulation).values, found.values) << "the same bits each time";
}

// Products and attention on tensor cores within a whole model.
TEST(EmulatedModelInBf16, has_nearly_the_cpus_gradient) {
  for (const char* kind : {"gpt", "llama", "bert"}) {
    EmulatedBackend emulation;
    ModelRun run(kind, {{"layers", "2"}, {"channels", "32"}, {"heads", "4"}, {"context", "20"}},
                 Precision::bf16);
    const Gradient wanted = run.gradient(*cpu::open_backend()), found = run.gradient(emulation);
    EXPECT_NEAR(found.sum.loss, wanted.sum.loss, 2e-3 * std::abs(wanted.sum.loss)) << kind;
    const Difference difference = compare(wanted, found);
    EXPECT_LT(difference.off, 2e-2 * difference.largest) << kind;
    EXPECT_GT(difference.off, 1e-5 * difference.largest) << kind << ": nothing was rounded";
    EXPECT_EQ(run.gradient(emulation).values, found.values) << kind;
  }
}

// A stage is replayed with the weights of now: those that changed, and the first ones again.
TEST(EmulatedModelInBf16, has_the_same_bits_where_its_stages_are_replayed) {
  for (const char* kind : {"gpt", "llama"}) {
    EmulatedBackend plain, notes(true);
    ModelRun run(kind, {{"layers", "1"}, {"channels", "32"}, {"heads", "2"}, {"context", "8"}},
                 Precision::bf16);
    const std::vector<std::uint64_t> seeds = {3, 3, 4, 3};
    const auto wanted = run.gradients(plain, seeds), found = run.gradients(notes, seeds);
    for (std::size_t at = 0; at < seeds.size(); ++at) {
      EXPECT_EQ(found[at].values, wanted[at].values) << kind << ", " << at;
      EXPECT_EQ(found[at].sum.loss, wanted[at].sum.loss) << kind << ", " << at;
    }
    EXPECT_EQ(found[2].values, run.gradients(plain, {4}).front().values) << kind << ", anew";
    EXPECT_EQ(notes.noted, run.stages()) << kind << ": each stage is noted once";
    EXPECT_EQ(notes.replayed, 3 * run.stages()) << kind << ": in all but the first gradient";
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, EmulatedModel,
                         ::testing::Values("bert", "gpt", "llama", "mlp", "resnet"),
                         [](const auto& given) { return given.param; });

}  // namespace
}  // namespace gpunode::parity
