#include "runtime/dataset/split_dataset.hpp"

namespace gpunode::dataset {

Result<std::shared_ptr<const SplitDataset>> SplitDataset::create(
    std::shared_ptr<const Dataset> training, std::shared_ptr<const Dataset> validation) {
  GPUNODE_CHECK(training->held_out_count() == 0 && validation->held_out_count() == 0,
                "a part of a split has something held out");
  if (training->fields() != validation->fields())
    return Error{ErrorCode::invalid_argument,
                 "data: the validation set has samples of " + to_text(validation->fields()) +
                     ", those that are trained on are " + to_text(training->fields())};
  return std::shared_ptr<const SplitDataset>(
      new SplitDataset(std::move(training), std::move(validation)));
}

std::uint64_t SplitDataset::size_bytes() const {
  return training_->size_bytes() + validation_->size_bytes();
}

storage::Sha256 SplitDataset::data_digest() const {
  storage::Sha256Stream both;
  for (const Dataset* part : {training_.get(), validation_.get()}) {
    const storage::Sha256 digest = part->data_digest();
    both.add(digest.value);
  }
  return both.finish();
}

}  // namespace gpunode::dataset
