#include "kernels/cuda/cuda_backend.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <string>

#include "kernels/cuda/nccl_group.hpp"
#include "kernels/cuda/toolkit/cuda_context.hpp"
#include "kernels/cuda/toolkit/group_memory.hpp"
#include "kernels/cuda/toolkit/noted_work.hpp"
#include "kernels/cuda/toolkit/operations.hpp"

namespace gpunode::cuda {
namespace {

// Generations of GPUs for which this binary has machine code; later ones' drivers compile the PTX.
constexpr int kBuiltForMajor[] = {GPUNODE_CUDA_MAJORS};

class DeviceMemory final : public tensor::Memory {
 public:
  DeviceMemory(std::shared_ptr<Context> context, tensor::Device device)
      : context_(std::move(context)), device_(std::move(device)) {}

  const tensor::Device& device() const override { return device_; }

  Result<void*> allocate(std::size_t bytes) override {
    if (auto done = context_->activate(); !done) return done.error();
    void* data = nullptr;
    auto done = check(cudaMalloc(&data, bytes), "allocating GPU memory");
    if (!done) {
      cudaGetLastError();  // this failure is handled; later launches must not see it
      return done.error().within(std::to_string(bytes) + " bytes on " + device_.name);
    }
    return data;
  }

  void release(void* data, std::size_t) override {
    if (context_->activate()) cudaFree(data);
  }

 private:
  std::shared_ptr<Context> context_;
  tensor::Device device_;
};

// Page-locked: the GPU copies to and from it without the driver's help.
class HostMemory final : public tensor::Memory {
 public:
  explicit HostMemory(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  const tensor::Device& device() const override { return device_; }

  Result<void*> allocate(std::size_t bytes) override {
    if (auto done = context_->activate(); !done) return done.error();
    void* data = nullptr;
    auto done = check(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), "page-locking memory");
    if (!done) {
      cudaGetLastError();
      return done.error().within(std::to_string(bytes) + " bytes of the host's");
    }
    return data;
  }

  void release(void* data, std::size_t) override {
    if (context_->activate()) cudaFreeHost(data);
  }

 private:
  std::shared_ptr<Context> context_;
  tensor::Device device_{tensor::DeviceKind::cpu, "page-locked memory"};
};

struct CudaWork final : public ops::NotedWork {
  explicit CudaWork(std::unique_ptr<CapturedGraph> noted) : graph(std::move(noted)) {}
  std::unique_ptr<CapturedGraph> graph;
};

// cuBLASLt chooses an algorithm by shapes, types, addresses, its version and this: no two devices that
// agree in all of them get different ones. The driver counts where it compiled our kernels itself.
std::string chosen_by(const cudaDeviceProp& properties) {
  std::string text = std::to_string(properties.multiProcessorCount) + " multiprocessors";
  const auto& built = kBuiltForMajor;
  if (std::find(std::begin(built), std::end(built), properties.major) == std::end(built)) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    text += ", kernels compiled by driver " + std::to_string(driver / 1000) + "." +
            std::to_string(driver % 1000 / 10);
  }
  return text;
}

class CudaBackend final : public ops::Backend {
 public:
  CudaBackend(std::shared_ptr<Context> context, const cudaDeviceProp& properties)
      : context_(std::move(context)),
        memory_(std::make_shared<DeviceMemory>(
            context_, tensor::Device{tensor::DeviceKind::cuda, properties.name})),
        staging_memory_(std::make_shared<HostMemory>(context_)) {
    capabilities_.instruction_set =
        "sm_" + std::to_string(properties.major * 10 + properties.minor);
    capabilities_.library = context_->cublas ? "cuBLASLt " + context_->cublas->version
                                             : "no cuBLASLt, products of gpunode";
    capabilities_.chooses_by = chosen_by(properties);
    capabilities_.memory_bytes = properties.totalGlobalMem;
    capabilities_.notes_work = true;
    capabilities_.forms_groups = true;
    enter_kernels(operations_);
    if (!context_->cublas) return;
    operations_.matmul = matmul;
    capabilities_.tf32 = properties.major >= 8;
  }

  const tensor::Device& device() const override { return memory_->device(); }
  const ops::Capabilities& capabilities() const override { return capabilities_; }
  const ops::Operations& operations() const override { return operations_; }
  std::shared_ptr<tensor::Memory> memory() const override { return memory_; }
  std::shared_ptr<tensor::Memory> staging_memory() const override { return staging_memory_; }
  ops::HostTraffic host_traffic() const override {
    return {to_device_.load(std::memory_order_relaxed), to_host_.load(std::memory_order_relaxed)};
  }
  Result<std::unique_ptr<tensor::Stream>> open_stream() override {
    if (auto done = context_->activate(); !done) return done.error();
    cudaStream_t stream = nullptr;
    auto done =
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "opening a stream");
    if (!done) return done.error();
    return std::unique_ptr<tensor::Stream>(std::make_unique<CudaStream>(context_, stream));
  }
  Result<void> upload(tensor::Stream& stream, ByteView from, void* to) override {
    to_device_.fetch_add(from.size(), std::memory_order_relaxed);
    return check(
        cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, own(stream).stream()),
        "copying to the GPU");
  }
  Result<void> download(tensor::Stream& stream, const void* from, MutableByteView to) override {
    to_host_.fetch_add(to.size(), std::memory_order_relaxed);
    return check(
        cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, own(stream).stream()),
        "copying from the GPU");
  }
  Result<void> copy(tensor::Stream& stream, const void* from, void* to,
                    std::size_t bytes) override {
    return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, own(stream).stream()),
                 "copying on the GPU");
  }
  Result<void> clear(tensor::Stream& stream, void* to, std::size_t bytes) override {
    if (auto done = context_->activate(); !done) return done;
    return check(cudaMemsetAsync(to, 0, bytes, own(stream).stream()), "clearing GPU memory");
  }
  Result<std::unique_ptr<tensor::Event>> record(tensor::Stream& stream) override {
    if (auto done = context_->activate(); !done) return done.error();
    cudaEvent_t made = nullptr;
    auto done = check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "making an event");
    if (!done) return done.error();
    auto event = std::make_unique<CudaEvent>(context_, made);
    done = check(cudaEventRecord(made, own(stream).stream()), "recording an event");
    if (!done) return done.error();
    return std::unique_ptr<tensor::Event>(std::move(event));
  }
  Result<void> wait(tensor::Stream& stream, const tensor::Event& event, tensor::WaitSite) override {
    return check(cudaStreamWaitEvent(own(stream).stream(), own(event).event()),
                 "letting a stream wait");
  }
  // What cannot be captured is queued again as ever, and fails there if it must.
  Result<std::unique_ptr<ops::NotedWork>> note_work(
      tensor::Stream& stream, const std::function<Result<void>()>& queue) override {
    if (auto done = context_->activate(); !done) return done.error();
    auto graph = CapturedGraph::capture(own(stream).stream(), [&] { return queue().has_value(); });
    if (!graph) return std::unique_ptr<ops::NotedWork>();
    return std::unique_ptr<ops::NotedWork>(std::make_unique<CudaWork>(std::move(graph)));
  }
  Result<void> replay(tensor::Stream& stream, const ops::NotedWork& work) override {
    if (auto done = context_->activate(); !done) return done;
    return check(static_cast<const CudaWork&>(work).graph->launch(own(stream).stream()),
                 "starting a CUDA graph");
  }
  Result<std::unique_ptr<ops::DeviceGroup>> open_group(bool between_machines) override {
    auto place = pci_bus_id(context_->ordinal);
    if (!place) return Error{ErrorCode::unsupported, place.error().detail};
    return open_nccl_group({.memory = open_group_memory(context_),
                            .pci_bus_id = *place,
                            .between_machines = between_machines,
                            .program = {}});
  }

 private:
  std::shared_ptr<Context> context_;
  std::shared_ptr<DeviceMemory> memory_;
  std::shared_ptr<HostMemory> staging_memory_;
  std::atomic<std::uint64_t> to_device_{0}, to_host_{0};  // bytes
  ops::Capabilities capabilities_;
  ops::Operations operations_;
};

}  // namespace

Result<int> device_count() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess) return count;
  cudaGetLastError();
  int driver = 0;  // the CUDA version that it offers; 0 where there is none
  cudaDriverGetVersion(&driver);
  const bool absent = driver == 0 || status == cudaErrorNoDevice;
  const std::string cause = driver == 0 ? "there is no driver" : cudaGetErrorString(status);
  std::string remedy = "if the machine has a GPU, install its driver and check it with nvidia-smi";
  if (!absent && driver < CUDART_VERSION)
    remedy = "this build needs a driver for CUDA " + std::to_string(CUDART_VERSION / 1000) +
             ", the one here is for " + std::to_string(driver / 1000) + "." +
             std::to_string(driver % 1000 / 10) + ": install a newer driver";
  return Error{
      absent ? ErrorCode::no_device : ErrorCode::unavailable,
      "no usable NVIDIA GPU (" + cause + "); `--device cpu` computes on the CPU; " + remedy};
}

Result<std::unique_ptr<ops::Backend>> open_backend(int ordinal, Products products) {
  const auto count = device_count();
  if (!count) return count.error();
  if (ordinal < 0 || ordinal >= *count)
    return {ErrorCode::no_device, "there is no GPU number " + std::to_string(ordinal) +
                                      "; the driver shows " + std::to_string(*count)};
  cudaDeviceProp properties{};
  if (auto done = check(cudaGetDeviceProperties(&properties, ordinal), "asking the GPU's name");
      !done)
    return done.error();
  if (properties.major < kBuiltForMajor[0])
    return {ErrorCode::unsupported,
            std::string(properties.name) + " is an sm_" +
                std::to_string(properties.major * 10 + properties.minor) +
                ", too old for this build's kernels: they need sm_80 or newer"};
  auto context = std::make_shared<Context>();
  context->ordinal = ordinal;
  if (auto done = context->activate(); !done) return done.error();
  if (products == Products::fastest) context->cublas = CublasLt::open();
  return std::unique_ptr<ops::Backend>(
      std::make_unique<CudaBackend>(std::move(context), properties));
}

Result<std::string> pci_bus_id(int ordinal) {
  char text[32] = {};
  auto done = check(cudaDeviceGetPCIBusId(text, sizeof text, ordinal), "asking the GPU's place");
  if (!done) {
    cudaGetLastError();  // this failure is handled; later launches must not see it
    return done.error();
  }
  return std::string(text);
}

}  // namespace gpunode::cuda
