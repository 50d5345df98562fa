#include "tests/parity/hostile/hostile_device.hpp"

#include "kernels/cpu/cpu_backend.hpp"

namespace gpunode::hostile {

HostileStream* own(tensor::Stream& stream) {
  return dynamic_cast<HostileStream*>(&stream);
}

HostileStream::HostileStream(std::shared_ptr<HostileDevice> device, std::size_t number)
    : device_(std::move(device)),
      number_(number),
      queue_(std::make_shared<LateQueue>(device_->options().pace,
                                         mix(device_->options().seed, number))) {}

HostileStream::~HostileStream() {
  queue_->wait_for_all();
}

Result<void> HostileStream::synchronise() {
  queue_->wait_for_all();
  return device_->state();
}

HostileDevice::HostileDevice(Options options, std::unique_ptr<DeviceWindow> window)
    : options_(std::move(options)),
      window_(std::move(window)),
      cpu_(cpu::open_backend()),
      arithmetic_(options_.arithmetic.value_or(cpu_->operations())) {}

void HostileDevice::release(const void* data) {
  if (auto reason = window_->release(data)) fault("release: " + *reason);
}

Error HostileDevice::fault(std::string text) {
  std::lock_guard lock(mutex_);
  if (report_.first_error.empty()) report_.first_error = text;
  return {ErrorCode::internal, "hostile device: " + std::move(text)};
}

Result<void> HostileDevice::state() const {
  std::lock_guard lock(mutex_);
  if (report_.first_error.empty()) return {};
  return {ErrorCode::internal, "hostile device: " + report_.first_error};
}

Report HostileDevice::report() const {
  std::lock_guard lock(mutex_);
  return report_;
}

Result<std::string> HostileDevice::enter(HostileStream& stream, const Call& call) {
  std::string name;
  {
    std::lock_guard lock(mutex_);
    name = call.name + " #" + std::to_string(++calls_) + " on stream " +
           std::to_string(stream.number());
  }
  for (const ops::Access& access : call.accesses) {
    if (access.field == call.host_field) continue;
    if (auto reason = window_->reason_against(access.data, access.bytes))
      return fault(name + ": its argument '" + std::string(access.field) + "' " + *reason);
  }
  return name;
}

}  // namespace gpunode::hostile
