#include "kernels/ops/cross_entropy.hpp"

#include "kernels/cpu/operations.hpp"
#include "kernels/tensor/exact_math.hpp"

#define GPUNODE_ISA_BODY "kernels/cpu/detail/cross_entropy_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {

Result<void> cross_entropy(tensor::Stream&, tensor::Workspace&, const ops::CrossEntropyArgs& args) {
  const auto rows = static_cast<std::size_t>(args.targets.element_count());
  const auto columns = static_cast<std::size_t>(args.logits.element_count()) / rows;
  const auto softmax_row = GPUNODE_PICK(softmax_row);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int32_t target = args.targets.data[row];
    if (target == ops::kNoTarget) {
      args.losses.data[row] = 0.0f;
      if (args.dlogits) std::fill_n(args.dlogits.data + row * columns, columns, 0.0f);
      continue;
    }
    GPUNODE_CHECK(target >= 0 && static_cast<std::size_t>(target) < columns,
                  "cross_entropy: target outside the vocabulary");
    const float* logits = args.logits.data + row * columns;
    float* dlogits = args.dlogits ? args.dlogits.data + row * columns : nullptr;
    const float score = logits[target];  // read first: dlogits may lie in the same place
    float sum = 0;
    const float top = softmax_row(logits, dlogits, columns, &sum);
    args.losses.data[row] = static_cast<float>(tensor::exact_log(sum) + (double{top} - score));
    if (dlogits) dlogits[target] -= 1.0f;
  }
  return {};
}

}  // namespace gpunode::cpu
