#include "tests/support/grouping_backend.hpp"

#include <utility>

#include "kernels/cpu/cpu_backend.hpp"
#include "tests/support/shm_group_memory.hpp"

namespace gpunode::testing {
namespace {

class GroupingBackend final : public ops::Backend {
 public:
  GroupingBackend() : cpu_(cpu::open_backend()), capabilities_(cpu_->capabilities()) {
    capabilities_.forms_groups = true;
  }
  const tensor::Device& device() const override { return cpu_->device(); }
  const ops::Capabilities& capabilities() const override { return capabilities_; }
  const ops::Operations& operations() const override { return cpu_->operations(); }
  std::shared_ptr<tensor::Memory> memory() const override { return cpu_->memory(); }
  Result<std::unique_ptr<tensor::Stream>> open_stream() override { return cpu_->open_stream(); }
  Result<void> upload(tensor::Stream& stream, ByteView from, void* to) override {
    return cpu_->upload(stream, from, to);
  }
  Result<void> download(tensor::Stream& stream, const void* from, MutableByteView to) override {
    return cpu_->download(stream, from, to);
  }
  Result<void> copy(tensor::Stream& stream, const void* from, void* to,
                    std::size_t bytes) override {
    return cpu_->copy(stream, from, to, bytes);
  }
  Result<void> clear(tensor::Stream& stream, void* to, std::size_t bytes) override {
    return cpu_->clear(stream, to, bytes);
  }
  Result<std::unique_ptr<tensor::Event>> record(tensor::Stream& stream) override {
    return cpu_->record(stream);
  }
  Result<void> wait(tensor::Stream& stream, const tensor::Event& event,
                    tensor::WaitSite site) override {
    return cpu_->wait(stream, event, site);
  }
  Result<std::unique_ptr<ops::DeviceGroup>> open_group(bool between_machines) override {
    return cuda::open_nccl_group({.memory = memory_,
                                  .pci_bus_id = "0000:0a:00.0",
                                  .between_machines = between_machines,
                                  .program = {}});
  }

 private:
  std::unique_ptr<ops::Backend> cpu_;
  ops::Capabilities capabilities_;
  std::shared_ptr<cuda::ShmGroupMemory> memory_ = std::make_shared<cuda::ShmGroupMemory>();
};

}  // namespace

std::unique_ptr<ops::Backend> open_grouping_backend() {
  return std::make_unique<GroupingBackend>();
}

}  // namespace gpunode::testing
