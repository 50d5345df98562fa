// A multilayer perceptron over rows of numbers: layers of ReLU units, then a score for each class.
// Source: Rumelhart, Hinton, Williams, "Learning representations by back-propagating errors", 1986.
#pragma once

#include "kernels/model/classifier.hpp"

namespace gpunode::model {

struct MlpConfig {
  std::int64_t features = 64;  // columns of the table but the label
  std::int64_t classes = 10;   // labels are 0 .. classes-1
  std::int64_t layers = 2;     // hidden ones
  std::int64_t hidden = 128;   // units in each
  std::int64_t divisor = 1;    // of each feature: its largest value, so that units see 0 to 1
};

class Mlp final : public Classifier {
 public:
  static Result<std::unique_ptr<Mlp>> open(MlpConfig config);

  std::string kind() const override { return "mlp"; }
  std::string name() const override;
  Settings config() const override;
  std::int64_t features() const override { return config_.features; }
  std::size_t vocabulary() const override { return static_cast<std::size_t>(config_.classes); }
  // Weights N(0, sqrt(2 / inputs)), of the first layer by the divisor less; biases 0.
  void forward(graph::Builder& builder) const override;

 private:
  explicit Mlp(MlpConfig config) : config_(config) {}
  MlpConfig config_;
};

// Keys: the fields of MlpConfig.
Result<std::unique_ptr<Model>> make_mlp(const Settings& settings);

}  // namespace gpunode::model
