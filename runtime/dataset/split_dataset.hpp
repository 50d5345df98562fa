// One data set to train on and another one, given beside it, to validate on. Both are whole: nothing
// is drawn from either. Immutable; any thread.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/dataset/dataset.hpp"

namespace gpunode::dataset {

class SplitDataset final : public Dataset {
 public:
  // Neither holds anything out; the samples of `validation` have no targets in common. Fails with
  // invalid_argument: their samples have other fields.
  static Result<std::shared_ptr<const SplitDataset>> create(
      std::shared_ptr<const Dataset> training, std::shared_ptr<const Dataset> validation);

  std::uint64_t size_bytes() const override;
  storage::Sha256 data_digest() const override;  // of both, in this order

  std::uint64_t sample_count() const override { return training_->sample_count(); }
  void read_sample(std::uint64_t index, MutableByteView target) const override {
    training_->read_sample(index, target);
  }
  std::uint64_t held_out_count() const override { return validation_->sample_count(); }
  void read_held_out(std::uint64_t index, MutableByteView target) const override {
    validation_->read_sample(index, target);
  }

 private:
  SplitDataset(std::shared_ptr<const Dataset> training, std::shared_ptr<const Dataset> validation)
      : Dataset(training->shared_source(), training->fields()),
        training_(std::move(training)),
        validation_(std::move(validation)) {}

  std::shared_ptr<const Dataset> training_, validation_;
};

}  // namespace gpunode::dataset
