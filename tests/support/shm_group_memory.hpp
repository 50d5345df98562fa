// Memory that other processes open by its name, as they would a GPU's by its handle. Thread-safe.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "kernels/cuda/nccl_group.hpp"

namespace gpunode::cuda {

class ShmGroupMemory : public GroupMemory {
 public:
  Result<Piece> allocate(std::size_t bytes) override {
    static std::atomic<int> made{0};
    const std::string name =
        "/gpunode-group-" + std::to_string(getpid()) + "-" + std::to_string(++made);
    const int file = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return Error{ErrorCode::out_of_memory, name + ": " + std::strerror(errno)};
    void* place = MAP_FAILED;
    if (ftruncate(file, static_cast<off_t>(bytes)) == 0)
      place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (place == MAP_FAILED) {
      shm_unlink(name.c_str());
      return Error{ErrorCode::out_of_memory, name + " cannot be mapped"};
    }
    Piece piece{.place = static_cast<std::byte*>(place)};
    std::memcpy(piece.handle.data(), name.data(), name.size());
    const std::lock_guard lock(mutex_);
    held_[piece.place] = {name, bytes};
    return piece;
  }
  void release(std::byte* place) override {
    const std::lock_guard lock(mutex_);
    const auto one = held_.find(place);
    if (one == held_.end()) return;
    shm_unlink(one->second.first.c_str());
    munmap(place, one->second.second);
    held_.erase(one);
  }
  std::size_t held() {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }

 private:
  std::mutex mutex_;
  std::map<std::byte*, std::pair<std::string, std::size_t>> held_;
};

}  // namespace gpunode::cuda
