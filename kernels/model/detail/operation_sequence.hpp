// Runs operations one after the other on one stream and keeps the first failure; after it nothing
// more is run. So a forward or backward pass reads as a list of operations.
#pragma once

#include <optional>
#include <utility>

#include "kernels/ops/backend.hpp"

namespace gpunode::model {

class OperationSequence {
 public:
  OperationSequence(const ops::Operations& operations, tensor::Stream& stream,
                    tensor::Workspace& workspace)
      : ops(operations), stream_(stream), workspace_(workspace) {}

  template <class Args>
  void run(ops::Operation<Args>* operation, const std::type_identity_t<Args>& args) {
    if (failure_) return;
    if (auto done = operation(stream_, workspace_, args); !done) failure_ = done.error();
  }

  Result<void> finish() {
    if (failure_) return std::exchange(failure_, std::nullopt).value();
    return stream_.synchronise();
  }

  const ops::Operations& ops;

 private:
  tensor::Stream& stream_;
  tensor::Workspace& workspace_;
  std::optional<Error> failure_;
};

}  // namespace gpunode::model
