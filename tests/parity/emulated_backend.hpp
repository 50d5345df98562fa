// The CPU's backend with our own CUDA kernels, compiled for the host against an emulation, in the
// places of their twins; products too, as on a GPU without cuBLASLt. It can note work, as a GPU does
// in graphs.
#pragma once

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cuda/toolkit/kernel_table.hpp"
#include "tests/parity/noted_operations.hpp"
#include "tests/parity/op_table.hpp"

namespace gpunode::parity {

struct Emulated {
  template <cuda::KernelName kName, auto kWork, class Args>
  static Result<void> run(tensor::Stream&, tensor::Workspace& workspace, const Args& args) {
    return cuda::start_work<kWork>(workspace, args, [](const auto& work) -> Result<void> {
      if (cuda::launch(work, nullptr) != cudaSuccess) return {ErrorCode::internal, kName.text};
      return {};
    });
  }
};

class EmulatedBackend final : public ops::Backend {
 public:
  explicit EmulatedBackend(bool notes_work = false) {
    cuda::enter_kernels<Emulated>(twins_);
    cuda::enter_kernels<Emulated>(operations_);
    capabilities_.notes_work = notes_work;
    if (notes_work) ops::for_each_operation(EnterNoted{operations_});
  }
  std::size_t noted = 0, replayed = 0;  // pieces of work
  void choose_by(std::string what) { capabilities_.chooses_by = std::move(what); }
  const ops::Operations& twins() const { return twins_; }
  bool has_twin(const std::string& operation) const { return has_operation(twins_, operation); }

  const tensor::Device& device() const override { return host_->device(); }
  const ops::Capabilities& capabilities() const override { return capabilities_; }
  const ops::Operations& operations() const override { return operations_; }
  std::shared_ptr<tensor::Memory> memory() const override { return host_->memory(); }
  Result<std::unique_ptr<tensor::Stream>> open_stream() override { return host_->open_stream(); }
  Result<void> upload(tensor::Stream& stream, ByteView from, void* to) override {
    return host_->upload(stream, from, to);
  }
  Result<void> download(tensor::Stream& stream, const void* from, MutableByteView to) override {
    return host_->download(stream, from, to);
  }
  Result<void> copy(tensor::Stream& stream, const void* from, void* to,
                    std::size_t bytes) override {
    return do_or_note([=, this, &stream] { return host_->copy(stream, from, to, bytes); });
  }
  Result<void> clear(tensor::Stream& stream, void* to, std::size_t bytes) override {
    return do_or_note([=, this, &stream] { return host_->clear(stream, to, bytes); });
  }
  Result<std::unique_ptr<tensor::Event>> record(tensor::Stream& stream) override {
    return host_->record(stream);
  }
  Result<void> wait(tensor::Stream& stream, const tensor::Event& event,
                    tensor::WaitSite site) override {
    return host_->wait(stream, event, site);
  }
  Result<std::unique_ptr<ops::NotedWork>> note_work(
      tensor::Stream&, const std::function<Result<void>()>& queue) override {
    auto work = std::make_unique<NotedCalls>();
    noting = work.get();
    const auto queued = queue();
    noting = nullptr;
    if (!queued) return std::unique_ptr<ops::NotedWork>();
    ++noted;
    return std::unique_ptr<ops::NotedWork>(std::move(work));
  }
  Result<void> replay(tensor::Stream&, const ops::NotedWork& work) override {
    ++replayed;
    for (const auto& call : dynamic_cast<const NotedCalls&>(work).calls)
      if (auto done = call(); !done) return done;
    return {};
  }

 private:
  std::unique_ptr<ops::Backend> host_ = cpu::open_backend();
  ops::Capabilities capabilities_ = host_->capabilities();
  ops::Operations twins_, operations_ = host_->operations();
};

}  // namespace gpunode::parity
