// A model whose weights before the first step are given and not drawn: a job that goes on from what
// another has learned. All else is the given model's. Holds 4 bytes a parameter for as long as it
// lives, as a job may go back to its beginning.
#pragma once

#include "kernels/model/model.hpp"

namespace gpunode::model {

class StartedModel final : public Model {
 public:
  // `weights`: parameter_count() values.
  StartedModel(std::unique_ptr<Model> model, std::vector<float> weights);

  std::string kind() const override { return model_->kind(); }
  std::string name() const override { return model_->name(); }
  Settings config() const override { return model_->config(); }
  const std::vector<ParameterSpec>& parameters() const override { return model_->parameters(); }
  std::size_t parameter_count() const override { return model_->parameter_count(); }
  std::vector<SampleField> sample_fields() const override { return model_->sample_fields(); }
  std::size_t tokens_per_sample() const override { return model_->tokens_per_sample(); }
  std::size_t vocabulary() const override { return model_->vocabulary(); }
  // The weights, whatever the seed.
  void initialise(std::uint64_t seed, std::span<float> parameters) const override;
  std::uint64_t working_bytes(int workers, std::size_t samples_per_slice) const override {
    return model_->working_bytes(workers, samples_per_slice) + weights_.size() * sizeof(float);
  }
  std::vector<ElementRange> stages() const override { return model_->stages(); }
  std::vector<ElementRange> forward_stages() const override { return model_->forward_stages(); }
  std::uint64_t slot_bytes(std::size_t samples_per_slice) const override {
    return model_->slot_bytes(samples_per_slice);
  }
  Result<void> use_precision(Precision precision) override {
    return model_->use_precision(precision);
  }
  Precision precision() const override { return model_->precision(); }
  double slice_flops(std::size_t samples_per_slice) const override {
    return model_->slice_flops(samples_per_slice);
  }
  Result<std::unique_ptr<Program>> program(ops::Backend& backend, int workers) const override {
    return model_->program(backend, workers);
  }

 private:
  std::unique_ptr<Model> model_;
  std::vector<float> weights_;
};

}  // namespace gpunode::model
