// What all models that tell the class of a row of features share: a sample is its features and its
// label (dataset/table_dataset.hpp).
#pragma once

#include "kernels/model/graph_model.hpp"

namespace gpunode::model {

class Classifier : public GraphModel {
 public:
  virtual std::int64_t features() const = 0;
  std::vector<SampleField> sample_fields() const final;
  std::size_t tokens_per_sample() const final { return 1; }
  std::int64_t context() const final { return 1; }
  bool generates() const final { return false; }
  // Fails with: invalid_argument (a label beyond the classes).
  Result<void> read(const Sample& sample, std::span<const InputPart> inputs) const final;

 protected:
  struct Inputs {
    graph::ValueId features, labels;  // (B, ...), (B, 1)
  };
  // The inputs that read() fills; the first call of a forward pass. A row's features may be given
  // another shape (...).
  Inputs inputs_of(graph::Builder& builder) const { return inputs_of(builder, {features()}); }
  Inputs inputs_of(graph::Builder& builder, std::initializer_list<std::int64_t> shape) const;
};

}  // namespace gpunode::model
