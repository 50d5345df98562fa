#include "kernels/cuda/toolkit/group_memory.hpp"

#include <cstring>
#include <string>

namespace gpunode::cuda {
namespace {

// The driver shares whole blocks: a piece of a block would show what lies beside it.
// Source: CUDA Runtime API, cudaIpcGetMemHandle.
constexpr std::size_t kBlockBytes = std::size_t{2} << 20;

class IpcMemory final : public GroupMemory {
 public:
  explicit IpcMemory(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  Result<Piece> allocate(std::size_t bytes) override {
    if (auto done = context_->activate(); !done) return done.error();
    bytes = (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
    void* place = nullptr;
    if (auto done = checked(cudaMalloc(&place, bytes), "allocating GPU memory"); !done)
      return done.error().within(std::to_string(bytes) + " bytes for a device group");
    cudaIpcMemHandle_t handle{};
    auto done = checked(cudaIpcGetMemHandle(&handle, place), "sharing GPU memory with a process");
    if (!done) {
      cudaFree(place);
      return Error{ErrorCode::unavailable, done.error().detail};
    }
    Piece piece{.place = static_cast<std::byte*>(place)};
    static_assert(sizeof piece.handle == sizeof handle);
    std::memcpy(piece.handle.data(), &handle, sizeof handle);
    return piece;
  }

  void release(std::byte* place) override {
    if (context_->activate()) cudaFree(place);
  }

 private:
  // This failure is handled; later launches must not see it.
  static Result<void> checked(cudaError_t status, const char* what) {
    auto done = check(status, what);
    if (!done) cudaGetLastError();
    return done;
  }

  std::shared_ptr<Context> context_;
};

}  // namespace

std::shared_ptr<GroupMemory> open_group_memory(std::shared_ptr<Context> context) {
  return std::make_shared<IpcMemory>(std::move(context));
}

}  // namespace gpunode::cuda
