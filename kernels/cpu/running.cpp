// Running statistics, element by element: a few thousand of them in a large model.
#include "kernels/ops/running.hpp"

#include <algorithm>

#include "kernels/cpu/operations.hpp"

namespace gpunode::cpu {

Result<void> batchnorm_statistics(tensor::Stream&, tensor::Workspace&,
                                  const ops::BatchnormStatisticsArgs& args) {
  const std::int64_t count = args.mean.element_count();
  GPUNODE_CHECK(args.rstd.element_count() == count && args.mean_sum.element_count() == count &&
                    args.variance_sum.element_count() == count,
                "batchnorm_statistics: sizes differ");
  const auto samples = static_cast<float>(args.samples);
  const float unbiased = static_cast<float>(args.rows) /
                         static_cast<float>(std::max<std::int64_t>(args.rows - 1, 1)) * samples;
  for (std::int64_t i = 0; i < count; ++i) {
    const float rstd = args.rstd.data[i];
    args.mean_sum.data[i] = samples * args.mean.data[i];
    args.variance_sum.data[i] = std::max(1.0f / (rstd * rstd) - args.epsilon, 0.0f) * unbiased;
  }
  return {};
}

Result<void> follow(tensor::Stream&, tensor::Workspace&, const ops::FollowArgs& args) {
  const std::int64_t count = args.sum.element_count();
  GPUNODE_CHECK(args.values.element_count() == count, "follow: sizes differ");
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = args.values.data[i];
    args.values.data[i] = value + args.share * (args.sum.data[i] * args.scale - value);
  }
  return {};
}

}  // namespace gpunode::cpu
