#include "tools/bench/paced_model.hpp"

#include <algorithm>
#include <thread>

#include "runtime/base/clock.hpp"

namespace gpunode::bench {
namespace {

constexpr std::size_t kLayers = 12;
constexpr std::size_t kParametersALayer = 500'000;
constexpr Duration kLayer = std::chrono::milliseconds(3);

class PacedProgram final : public model::Program {
 public:
  Result<void> load(std::span<const float>) override { return {}; }
  Result<void> load_part(std::span<const float>, model::ElementRange) override { return {}; }
  Result<model::LossSum> gradient(int, std::span<const model::Sample>, std::span<float>) override {
    return {ErrorCode::unsupported, "by stages only"};
  }
  Result<model::Evaluation> evaluate(int, std::span<const model::Sample>) override {
    return model::Evaluation{};
  }
  Result<std::unique_ptr<model::Session>> session() override {
    return {ErrorCode::unsupported, "it generates nothing"};
  }
  void make_slots(std::size_t count) override { values_.resize(std::max(values_.size(), count)); }
  // Small enough that the norm of the mean gradient stays below 1.
  Result<model::LossSum> forward(int, std::size_t slot, std::size_t,
                                 std::span<const model::Sample> samples) override {
    values_[slot] = samples.empty() ? 0.0f : 1e-6f * static_cast<float>(samples[0].index % 1000);
    take(kLayer);
    return model::LossSum{values_[slot], static_cast<float>(16 * samples.size())};
  }
  Result<void> backward(int, std::size_t slot, std::size_t, std::span<float> part) override {
    std::fill(part.begin(), part.end(), values_[slot]);
    take(2 * kLayer);
    return {};
  }

 private:
  // Late wake-ups are made good: the device's own clock goes on.
  void take(Duration duration) {
    static thread_local Time due{};
    const Time now = clock_.now();
    if (now - due > std::chrono::milliseconds(1)) due = now;
    due += duration;
    std::this_thread::sleep_for(due - now);
  }

  SystemClock clock_;
  std::vector<float> values_;  // of the slice in each slot
};

class PacedModel final : public model::Model {
 public:
  PacedModel() {
    for (std::size_t layer = 0; layer < kLayers; ++layer)
      specs_.push_back({"layers." + std::to_string(layer),
                        {static_cast<std::int64_t>(kParametersALayer)},
                        true});
  }
  std::string kind() const override { return "paced"; }
  std::string name() const override { return "paced"; }
  model::Settings config() const override { return {}; }
  const std::vector<model::ParameterSpec>& parameters() const override { return specs_; }
  std::size_t parameter_count() const override { return kLayers * kParametersALayer; }
  std::vector<SampleField> sample_fields() const override {
    return {{"text", SampleDtype::u8, 17}};
  }
  std::size_t tokens_per_sample() const override { return 16; }
  std::size_t vocabulary() const override { return 256; }
  void initialise(std::uint64_t, std::span<float> parameters) const override {
    std::fill(parameters.begin(), parameters.end(), 0.5f);
  }
  std::uint64_t working_bytes(int, std::size_t) const override { return 0; }
  std::vector<model::ElementRange> stages() const override {
    std::vector<model::ElementRange> stages;
    for (std::size_t layer = kLayers; layer-- > 0;)
      stages.push_back({layer * kParametersALayer, kParametersALayer});
    return stages;
  }
  std::vector<model::ElementRange> forward_stages() const override {
    std::vector<model::ElementRange> ascending = stages();
    std::ranges::reverse(ascending);
    return ascending;
  }
  Result<std::unique_ptr<model::Program>> program(ops::Backend&, int) const override {
    return std::unique_ptr<model::Program>(std::make_unique<PacedProgram>());
  }

 private:
  std::vector<model::ParameterSpec> specs_;
};

}  // namespace

std::shared_ptr<const model::Model> make_paced_model() {
  return std::make_shared<PacedModel>();
}

}  // namespace gpunode::bench
