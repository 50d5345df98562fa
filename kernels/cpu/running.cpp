// Running statistics, element by element: a few thousand of them in a large model.
#include "kernels/ops/running.hpp"

#include <algorithm>
#include <span>

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

namespace {

void approach(std::span<float> values, const float* sum, float scale, float share) {
  for (float& value : values) value = value + share * (*sum++ * scale - value);
}

}  // namespace

Result<void> follow(tensor::Stream&, tensor::Workspace&, const ops::FollowArgs& args) {
  const std::int64_t count = args.sum.element_count();
  GPUNODE_CHECK(args.values.element_count() == count, "follow: sizes differ");
  const std::span<float> values(args.values.data, static_cast<std::size_t>(count));
  if (args.blocks.count == 0) approach(values, args.sum.data, args.scale, args.share);
  for (std::int64_t at = 0; at < args.blocks.count; ++at) {
    const ops::BlockRow& row = args.blocks.rows[at];
    const auto first = static_cast<std::size_t>(row.begin - args.blocks.origin);
    if (row.is_buffer)
      approach(values.subspan(first, static_cast<std::size_t>(row.count)), args.sum.data + first,
               args.scale, row.share);
  }
  return {};
}

}  // namespace gpunode::cpu
