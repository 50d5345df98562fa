// A file descriptor that is closed with its owner. Movable; negative: there is none.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace gpunode {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int get() const { return number_; }

 private:
  int number_;
};

// How many more descriptors this process may open now, up to `most`.
inline std::size_t free_descriptors(std::size_t most) {
  std::vector<Descriptor> open;
  while (open.size() < most) {
    Descriptor one(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
    if (one.get() < 0) one = Descriptor(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (one.get() < 0) break;
    open.push_back(std::move(one));
  }
  return open.size();
}

}  // namespace gpunode
