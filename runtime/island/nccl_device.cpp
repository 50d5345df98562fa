// NCCL and the CUDA driver, the only file that knows them. Both are opened at run time, so that one
// binary starts with or without a GPU, and nothing of them is needed to build: the few declarations
// below are those of their public, versioned interfaces.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "runtime/island/detail/nccl_device.hpp"
#include "runtime/island/detail/rank_protocol.hpp"

namespace gpunode::island {
namespace {

// cuda.h
using CuDevice = int;
using CuContext = struct CUctx_st*;
using CuStream = struct CUstream_st*;
using CuPointer = unsigned long long;
// nccl.h
using NcclComm = struct ncclComm*;
struct NcclName {
  char internal[kNameBytes];
};
constexpr int kFloat32 = 7, kSum = 0;

class Library {
 public:
  explicit Library(const std::string& name)
      : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)), name_(name) {}
  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& name() const { return name_; }
  const std::string& missing() const { return missing_; }

  template <class Function>
  void load(Function& function, const char* name, bool needed = true) {
    void* symbol = dlsym(handle_, name);
    static_assert(sizeof symbol == sizeof function);
    std::memcpy(&function, &symbol, sizeof symbol);
    if (!symbol && needed && missing_.empty()) missing_ = name;
  }

 private:
  void* handle_;  // for the life of the process
  std::string name_, missing_;
};

class Device final : public NcclDevice {
 public:
  Device(Library nccl, Library driver, std::span<float> vector)
      : nccl_(std::move(nccl)), driver_(std::move(driver)), vector_(vector) {}

  Result<void> load() {
    driver_.load(init_, "cuInit");
    driver_.load(count_, "cuDeviceGetCount");
    driver_.load(device_, "cuDeviceGet");
    driver_.load(retain_, "cuDevicePrimaryCtxRetain");
    driver_.load(make_current_, "cuCtxSetCurrent");
    driver_.load(allocate_, "cuMemAlloc_v2");
    driver_.load(to_device_, "cuMemcpyHtoDAsync_v2");
    driver_.load(to_host_, "cuMemcpyDtoHAsync_v2");
    driver_.load(make_stream_, "cuStreamCreate");
    driver_.load(synchronize_, "cuStreamSynchronize");
    driver_.load(pin_, "cuMemHostRegister_v2", false);
    driver_.load(error_name_, "cuGetErrorName", false);
    nccl_.load(get_name_, "ncclGetUniqueId");
    nccl_.load(init_rank_, "ncclCommInitRank");
    nccl_.load(all_reduce_, "ncclAllReduce");
    nccl_.load(async_error_, "ncclCommGetAsyncError");
    nccl_.load(error_text_, "ncclGetErrorString");
    nccl_.load(last_error_, "ncclGetLastError", false);
    for (const Library* library : {&driver_, &nccl_})
      if (!library->missing().empty())
        return {ErrorCode::unsupported,
                library->name() + " lacks " + library->missing() + ": install a newer version"};
    if (const int code = init_(0); code != 0)
      return {ErrorCode::no_device, "no GPU: the driver does not start (" + cuda_text(code) + ")"};
    if (const int code = count_(&devices_); code != 0 || devices_ < 1)
      return {ErrorCode::no_device, "no GPU: the driver shows none"};
    return {};
  }

  Result<Bytes> make_name() override {
    NcclName name{};
    if (auto done = nccl(get_name_(&name), "ncclGetUniqueId"); !done) return done.error();
    const auto* bytes = reinterpret_cast<const std::byte*>(name.internal);
    return Bytes(bytes, bytes + sizeof name.internal);
  }

  Result<void> join(ByteView name, const Place& place) override {
    if (comm_) return {ErrorCode::wrong_state, "the GPU has joined a meeting already"};
    if (auto ready = prepare(place.place_on_host % devices_); !ready) return ready;
    NcclName all{};
    std::memcpy(all.internal, name.data(), std::min(name.size(), sizeof all.internal));
    return nccl(init_rank_(&comm_, place.member_count, all, place.rank), "ncclCommInitRank");
  }

  Result<void> sum() override {
    if (!comm_) return {ErrorCode::wrong_state, "a sum before the GPUs have met"};
    const std::size_t bytes = vector_.size_bytes();
    if (auto done = cuda(to_device_(memory_, vector_.data(), bytes, stream_), "copy to GPU"); !done)
      return done;
    auto* there = reinterpret_cast<void*>(memory_);
    if (auto done = nccl(all_reduce_(there, there, vector_.size(), kFloat32, kSum, comm_, stream_),
                         "ncclAllReduce");
        !done)
      return done;
    if (auto done = cuda(to_host_(vector_.data(), memory_, bytes, stream_), "copy from GPU"); !done)
      return done;
    if (auto done = cuda(synchronize_(stream_), "the sum on the GPU"); !done) return done;
    int state = 0;  // an error of the network shows only here
    if (auto done = nccl(async_error_(comm_, &state), "ncclCommGetAsyncError"); !done) return done;
    return nccl(state, "ncclAllReduce");
  }

 private:
  Result<void> prepare(int ordinal) {
    CuDevice device = 0;
    CuContext context = nullptr;
    if (auto done = cuda(device_(&device, ordinal), "cuDeviceGet"); !done) return done;
    // The primary context is the one that NCCL's own runtime uses.
    if (auto done = cuda(retain_(&context, device), "the GPU's context"); !done) return done;
    if (auto done = cuda(make_current_(context), "cuCtxSetCurrent"); !done) return done;
    if (auto done = cuda(make_stream_(&stream_, 1), "cuStreamCreate"); !done) return done;
    if (auto done = cuda(allocate_(&memory_, std::max<std::size_t>(vector_.size_bytes(), 4)),
                         "memory on the GPU for a gradient");
        !done)
      return done;
    // Pinned copies are faster; pageable ones are as right.
    if (pin_ && !vector_.empty()) (void)pin_(vector_.data(), vector_.size_bytes(), 0);
    return {};
  }
  std::string cuda_text(int code) const {
    const char* text = nullptr;
    if (error_name_ && error_name_(code, &text) == 0 && text) return text;
    return "error " + std::to_string(code);
  }
  Result<void> cuda(int code, const char* what) const {
    if (code == 0) return {};
    return {ErrorCode::internal, std::string(what) + " failed: " + cuda_text(code)};
  }
  Result<void> nccl(int code, const char* what) const {
    if (code == 0) return {};
    std::string text = std::string(what) + " failed: " + error_text_(code);
    if (const char* more = last_error_ ? last_error_(comm_) : nullptr; more && *more)
      text += std::string(" (") + more + ")";
    return {ErrorCode::internal, text};
  }

  Library nccl_, driver_;
  std::span<float> vector_;
  int devices_ = 0;
  CuStream stream_ = nullptr;
  CuPointer memory_ = 0;
  NcclComm comm_ = nullptr;

  int (*init_)(unsigned) = nullptr;
  int (*count_)(int*) = nullptr;
  int (*device_)(CuDevice*, int) = nullptr;
  int (*retain_)(CuContext*, CuDevice) = nullptr;
  int (*make_current_)(CuContext) = nullptr;
  int (*allocate_)(CuPointer*, std::size_t) = nullptr;
  int (*to_device_)(CuPointer, const void*, std::size_t, CuStream) = nullptr;
  int (*to_host_)(void*, CuPointer, std::size_t, CuStream) = nullptr;
  int (*make_stream_)(CuStream*, unsigned) = nullptr;
  int (*synchronize_)(CuStream) = nullptr;
  int (*pin_)(void*, std::size_t, unsigned) = nullptr;
  int (*error_name_)(int, const char**) = nullptr;
  int (*get_name_)(NcclName*) = nullptr;
  int (*init_rank_)(NcclComm*, int, NcclName, int) = nullptr;
  int (*all_reduce_)(const void*, void*, std::size_t, int, int, NcclComm, CuStream) = nullptr;
  int (*async_error_)(NcclComm, int*) = nullptr;
  const char* (*error_text_)(int) = nullptr;
  const char* (*last_error_)(NcclComm) = nullptr;
};

}  // namespace

Result<std::unique_ptr<NcclDevice>> NcclDevice::open(const std::string& nccl,
                                                     const std::string& driver,
                                                     std::span<float> vector) {
  Library below(driver);
  if (!below) return Error{ErrorCode::no_device, "no GPU driver: " + driver + " is not installed"};
  Library above(nccl);
  if (!above)
    return Error{ErrorCode::not_found,
                 "no NCCL: " + nccl + " is not installed, or not where the system looks for it"};
  auto device = std::make_unique<Device>(std::move(above), std::move(below), vector);
  if (auto loaded = device->load(); !loaded) return loaded.error();
  return std::unique_ptr<NcclDevice>(std::move(device));
}

}  // namespace gpunode::island
