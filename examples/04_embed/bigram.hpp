// The smallest language model: how likely is each byte after each other byte? One matrix of 256 by
// 256 scores. It shows all that a model of your own needs in order to train and to be served:
// Model (shapes and initial values), Program (the gradient of one slice), Session (next scores).
#pragma once

#include <kernels/model/model.hpp>

#include <memory>

namespace embed {

// Setting: "context", the predicted bytes of a sample (1 to 65536).
class Bigram final : public gpunode::model::Model {
 public:
  // For register_model. Fails with: invalid_argument for unknown keys and bad values.
  static gpunode::Result<std::unique_ptr<gpunode::model::Model>> create(
      const gpunode::model::Settings& settings);

  explicit Bigram(std::size_t context);
  std::string kind() const override { return "bigram"; }
  std::string name() const override { return "bigram over bytes"; }
  gpunode::model::Settings config() const override;
  const std::vector<gpunode::model::ParameterSpec>& parameters() const override { return specs_; }
  std::size_t parameter_count() const override { return kBytes * kBytes; }
  std::vector<gpunode::SampleField> sample_fields() const override {
    return {{"text", gpunode::SampleDtype::u8, static_cast<std::uint32_t>(context_ + 1)}};
  }
  std::size_t tokens_per_sample() const override { return context_; }
  std::size_t vocabulary() const override { return kBytes; }
  void initialise(std::uint64_t seed, std::span<float> parameters) const override;
  std::uint64_t working_bytes(int workers, std::size_t samples_per_slice) const override;
  gpunode::Result<std::unique_ptr<gpunode::model::Program>> program(gpunode::ops::Backend& backend,
                                                                    int workers) const override;

 private:
  static constexpr std::size_t kBytes = 256;
  std::size_t context_;
  std::vector<gpunode::model::ParameterSpec> specs_;
};

}  // namespace embed
