// Fibres: functions that stop in the middle and go on later, on a stack of their own. The emulation
// runs one a CUDA thread, for a switch costs some nanoseconds where that of a thread of the system
// costs microseconds. x86-64 has a switch written by hand; other machines use swapcontext, which
// asks the kernel at each switch. Sanitizers are told of the stacks.
//
// A fibre belongs to the thread that starts it. One that is abandoned in the middle runs no
// destructors; the stack is free again.
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace gpunode::emulation {

inline constexpr std::size_t kStackBytes = 128 << 10;  // a fibre's, a page of guard below it

// Stacks in one mapping, kept for the next launch: fresh ones cost a fault a page.
class Stacks {
 public:
  Stacks() = default;
  Stacks(const Stacks&) = delete;
  ~Stacks();
  void reserve(std::size_t count);
  std::byte* top(std::size_t index) const;

 private:
  std::byte* memory_ = nullptr;
  std::size_t count_ = 0;
};

class Fibre {
 public:
  using Function = void (*)(void* argument);

  // Makes a fibre that calls `function` when it is first resumed, on the stack that ends at `top`.
  void prepare(std::byte* top, Function function, void* argument);
  // Called by the owner: runs the fibre until it pauses or its function returns.
  void resume();
  // Called inside the fibre: goes back to where resume() was called.
  void pause() { leave(false); }

 private:
  static void enter();
  void leave(bool for_good);

  Function function_ = nullptr;
  void* argument_ = nullptr;
  std::byte* top_ = nullptr;
#if defined(__x86_64__)
  void *inside_ = nullptr, *outside_ = nullptr;  // stack pointers
#else
  ucontext_t inside_, outside_;
#endif
  void* fake_stack_ = nullptr;         // AddressSanitizer's, of the side that waits
  const void* owner_stack_ = nullptr;  // and the owner's stack, learnt on entry
  std::size_t owner_stack_bytes_ = 0;
  void *race_fibre_ = nullptr, *race_owner_ = nullptr;  // ThreadSanitizer's
};

}  // namespace gpunode::emulation
