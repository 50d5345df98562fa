// What happens when someone touches memory that is not his. A host that follows a device's address
// dies with a line that says so. An operation that leaves the guarded copies of its arguments is noted,
// the page is opened to it, and it goes on: the report then names it. One signal handler for the
// process (SIGSEGV), installed when the first window opens; other faults go to who was there before.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpunode::hostile {

class FaultTrap {
 public:
  static void watch_window(const void* begin, std::size_t bytes);
  static void forget_window(const void* begin);

  struct Fault {
    const std::byte* address = nullptr;  // of the first
    bool is_write = false;
  };

  // While one lives, faults of this thread inside `begin` are noted and survived.
  class Scope {
   public:
    Scope(const char* operation, std::byte* begin, std::size_t bytes);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    const Fault& fault() const { return fault_; }

   private:
    friend class FaultTrap;
    const char* operation_;
    std::byte* begin_;
    std::size_t bytes_;
    Fault fault_;
  };

 private:
  static void on_signal(int number, void* info, void* context);
  friend void install_fault_trap();
};

}  // namespace gpunode::hostile
