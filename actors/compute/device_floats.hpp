// A sum that stays on the device which computed it, as others hold it: it comes to the host when
// somebody reads it, if ever. Its digest is taken on the device. Owned by who holds the floats; the
// trainer, whose device it is, closes it before that goes. Thread-safe. Costs the device's copy of
// the sum for as long as somebody holds it.
#pragma once

#include <mutex>
#include <vector>

#include "actors/compute/device.hpp"
#include "runtime/collective/shared_floats.hpp"

namespace gpunode::compute {

class DeviceFloats final : public collective::FloatSource {
 public:
  // With the digests of the sum's blocks, parameters and tail. Fails with: internal, device_lost.
  static Result<std::shared_ptr<DeviceFloats>> of(SharedSum sum);

  // The sum's host vector with this as its source.
  static collective::SharedFloats shared(const std::shared_ptr<DeviceFloats>& floats);
  bool bring() override;
  Digest digest(collective::Elements part) const override;
  const Device* home() const { return home_; }
  // Nothing is left to bring: it came to the host, or (`lost`) its device cannot be asked.
  void close(bool lost);

 private:
  DeviceFloats(SharedSum sum, std::vector<Digest> blocks)
      : host_(sum->host), home_(sum->home), blocks_(std::move(blocks)), sum_(std::move(sum)) {}

  const std::shared_ptr<std::vector<float>> host_;
  const Device* const home_;
  const std::vector<Digest> blocks_;
  std::mutex mutex_;
  SharedSum sum_;  // null: brought, or lost
  bool is_lost_ = false;
};

}  // namespace gpunode::compute
