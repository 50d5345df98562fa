// The memory of the hostile device. Addresses that it hands out have no pages and never will: a host
// that follows one dies, and says so. The pages are mapped at a second place, which only the device's
// own work knows. Pieces stand apart, the end of each right before a page that is no one's; an
// address is never handed out twice, so that what was released stays recognisable. Fresh memory holds
// a pattern that is NaN as a float.
// Thread-safe. Costs a page or two a piece, and addresses (64 GiB of them, taken at opening).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "kernels/tensor/buffer.hpp"

namespace gpunode::hostile {

inline constexpr int kPoison = 0xff;  // of every byte

class DeviceWindow {
 public:
  // Fails with: internal (the system gave no addresses).
  static Result<std::unique_ptr<DeviceWindow>> open(std::uint64_t budget_bytes);
  ~DeviceWindow();

  // Fails with: out_of_memory (more than the budget in pieces that live).
  Result<void*> allocate(std::size_t bytes);
  // Why it could not be released, if so.
  std::optional<std::string> release(const void* data);

  // Whether an address is the device's, live or not.
  bool contains(const void* address) const;
  // Why these bytes are not all of one live piece, if so.
  std::optional<std::string> reason_against(const void* data, std::size_t bytes) const;
  // For people: "piece 3 + 128", or "host memory at 0x7f...".
  std::string text_of(const void* address) const;
  // Where the device's own work finds the byte that is handed out as `data`.
  template <class T>
  T* behind(T* data) const {
    const auto offset = reinterpret_cast<std::uintptr_t>(data) - front_;
    return reinterpret_cast<T*>(back_ + offset);
  }

 private:
  struct Piece {
    std::size_t number = 0, bytes = 0;
    std::uintptr_t first_page = 0, end_page = 0;
    bool live = true;
  };

  DeviceWindow() = default;
  const std::pair<const std::uintptr_t, Piece>* piece_at(const void* address) const;
  void* back_of(std::uintptr_t front) const {
    return reinterpret_cast<void*>(back_ + (front - front_));
  }

  int file_ = -1;
  std::uintptr_t front_ = 0, back_ = 0;  // what is handed out, and the same pages for the device
  std::uint64_t budget_ = 0, live_bytes_ = 0;
  mutable std::mutex mutex_;
  std::uintptr_t next_ = 0;
  std::map<std::uintptr_t, Piece> pieces_;  // by the address that was handed out, released ones too
};

}  // namespace gpunode::hostile
