#include "kernels/model/started_model.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"

namespace gpunode::model {

StartedModel::StartedModel(std::unique_ptr<Model> model, std::vector<float> weights)
    : model_(std::move(model)), weights_(std::move(weights)) {
  GPUNODE_CHECK(weights_.size() == model_->parameter_count(), "weights of another model");
}

void StartedModel::initialise(std::uint64_t, std::span<float> parameters) const {
  GPUNODE_CHECK(parameters.size() == weights_.size(), "initialise: wrong number of parameters");
  std::ranges::copy(weights_, parameters.begin());
}

}  // namespace gpunode::model
