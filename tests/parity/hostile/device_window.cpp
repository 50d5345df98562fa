#include "tests/parity/hostile/device_window.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "tests/parity/hostile/fault_trap.hpp"

namespace gpunode::hostile {
namespace {

constexpr std::uint64_t kWindowBytes = 64ull << 30;
constexpr std::size_t kAlignment = 64;
constexpr std::uintptr_t kPage = 4096;

constexpr std::uintptr_t whole_pages(std::uintptr_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

std::string hexadecimal(const void* address) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%" PRIxPTR, reinterpret_cast<std::uintptr_t>(address));
  return text;
}

}  // namespace

Result<std::unique_ptr<DeviceWindow>> DeviceWindow::open(std::uint64_t budget_bytes) {
  std::unique_ptr<DeviceWindow> window(new DeviceWindow);
  window->file_ = memfd_create("hostile device", MFD_CLOEXEC);
  if (window->file_ < 0 || ftruncate(window->file_, kWindowBytes) != 0)
    return {ErrorCode::internal, "the system gives no memory file"};
  void* front =
      mmap(nullptr, kWindowBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* back = mmap(nullptr, kWindowBytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, window->file_, 0);
  if (front != MAP_FAILED) window->front_ = reinterpret_cast<std::uintptr_t>(front);
  if (back != MAP_FAILED) window->back_ = reinterpret_cast<std::uintptr_t>(back);
  if (!window->front_ || !window->back_)
    return {ErrorCode::internal, "the system gives no addresses for a device's memory"};
  window->next_ = window->front_ + kPage;
  window->budget_ = budget_bytes;
  FaultTrap::watch_window(front, kWindowBytes);
  return window;
}

DeviceWindow::~DeviceWindow() {
  if (front_) {
    FaultTrap::forget_window(reinterpret_cast<void*>(front_));
    munmap(reinterpret_cast<void*>(front_), kWindowBytes);
  }
  if (back_) munmap(reinterpret_cast<void*>(back_), kWindowBytes);
  if (file_ >= 0) close(file_);
}

Result<void*> DeviceWindow::allocate(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  const std::uintptr_t pages = whole_pages(bytes);
  if (bytes > budget_ - live_bytes_ || pages + 2 * kPage > front_ + kWindowBytes - next_)
    return {ErrorCode::out_of_memory,
            std::to_string(bytes) + " bytes asked for, " + std::to_string(live_bytes_) + " of " +
                std::to_string(budget_) + " in use on the hostile device"};
  const std::uintptr_t aligned = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  Piece piece{pieces_.size(), bytes, next_, next_ + pages};
  void* back = back_of(piece.first_page);
  if (pages > 0 && mprotect(back, pages, PROT_READ | PROT_WRITE) != 0)
    return {ErrorCode::out_of_memory, "the system gives no more pages to the hostile device"};
  if (pages > 0) std::memset(back, kPoison, pages);
  next_ += pages + kPage;
  live_bytes_ += bytes;
  const std::uintptr_t address = piece.end_page - aligned;
  pieces_.emplace(address, piece);
  return reinterpret_cast<void*>(address);
}

std::optional<std::string> DeviceWindow::release(const void* data) {
  std::lock_guard lock(mutex_);
  auto found = pieces_.find(reinterpret_cast<std::uintptr_t>(data));
  if (found == pieces_.end()) return "no piece begins at " + hexadecimal(data);
  Piece& piece = found->second;
  if (!piece.live) return "piece " + std::to_string(piece.number) + " is released twice";
  piece.live = false;
  live_bytes_ -= piece.bytes;
  const std::uintptr_t pages = piece.end_page - piece.first_page;
  if (pages == 0) return std::nullopt;
  mprotect(back_of(piece.first_page), pages, PROT_NONE);
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(piece.first_page - front_), static_cast<off_t>(pages));
  return std::nullopt;
}

bool DeviceWindow::contains(const void* address) const {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return value >= front_ && value - front_ < kWindowBytes;
}

const std::pair<const std::uintptr_t, DeviceWindow::Piece>* DeviceWindow::piece_at(
    const void* address) const {
  auto after = pieces_.upper_bound(reinterpret_cast<std::uintptr_t>(address));
  return after == pieces_.begin() ? nullptr : &*std::prev(after);
}

std::optional<std::string> DeviceWindow::reason_against(const void* data, std::size_t bytes) const {
  if (!contains(data)) return "is host memory at " + hexadecimal(data);
  std::lock_guard lock(mutex_);
  const auto* found = piece_at(data);
  if (!found) return "lies before all pieces";
  const auto& [address, piece] = *found;
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(data) - address;
  const std::string name = "piece " + std::to_string(piece.number);
  if (offset >= piece.bytes || bytes > piece.bytes - offset)
    return "reaches beyond " + name + " (" + std::to_string(offset) + " + " +
           std::to_string(bytes) + " of " + std::to_string(piece.bytes) + " bytes)";
  if (!piece.live) return "lies in " + name + ", which is released";
  return std::nullopt;
}

std::string DeviceWindow::text_of(const void* address) const {
  if (!contains(address)) return "host memory at " + hexadecimal(address);
  std::lock_guard lock(mutex_);
  const auto* found = piece_at(address);
  if (!found) return "the device's memory at " + hexadecimal(address);
  return "piece " + std::to_string(found->second.number) + " + " +
         std::to_string(reinterpret_cast<std::uintptr_t>(address) - found->first);
}

}  // namespace gpunode::hostile
