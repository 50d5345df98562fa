#include "actors/compute/device_floats.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/model/model.hpp"
#include "runtime/base/check.hpp"

namespace gpunode::compute {

Result<std::shared_ptr<DeviceFloats>> DeviceFloats::of(SharedSum sum) {
  std::vector<Digest> blocks(digest_block_count(sum->host->size() * sizeof(float)));
  if (auto done = sum->home->digest_sum(*sum, blocks); !done) return done.error();
  return std::shared_ptr<DeviceFloats>(new DeviceFloats(std::move(sum), std::move(blocks)));
}

collective::SharedFloats DeviceFloats::shared(const std::shared_ptr<DeviceFloats>& floats) {
  return {floats->host_, floats};
}

bool DeviceFloats::bring() {
  std::lock_guard lock(mutex_);
  if (sum_) {
    is_lost_ = !sum_->home->bring_to_host(*sum_);
    sum_.reset();
    if (is_lost_)
      std::fill_n(host_->begin(), host_->size() - model::kTailElements,
                  std::numeric_limits<float>::quiet_NaN());
  }
  return !is_lost_;
}

void DeviceFloats::close(bool lost) {
  if (!lost) {
    bring();
    return;
  }
  std::lock_guard lock(mutex_);
  if (!sum_) return;
  sum_.reset();
  is_lost_ = true;
  std::fill_n(host_->begin(), host_->size() - model::kTailElements,
              std::numeric_limits<float>::quiet_NaN());
}

Digest DeviceFloats::digest(collective::Elements part) const {
  const std::size_t first = part.first * sizeof(float), bytes = part.count * sizeof(float);
  GPUNODE_CHECK(first % kDigestBlockBytes == 0, "a part between the borders of digest blocks");
  return join_block_digests(
      std::span(blocks_).subspan(first / kDigestBlockBytes, digest_block_count(bytes)));
}

}  // namespace gpunode::compute
