#include "tests/parity/emulation/fibre.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#define GPUNODE_FIBRE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GPUNODE_FIBRE_ASAN 1
#endif
#endif
#ifdef GPUNODE_FIBRE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)
// Saves what the calling convention lets a caller expect unchanged, exchanges the stacks, restores.
extern "C" void gpunode_fibre_switch(void** save, void* load);
asm(R"(
.text
.globl gpunode_fibre_switch
.type gpunode_fibre_switch, @function
gpunode_fibre_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size gpunode_fibre_switch, .-gpunode_fibre_switch
)");
#endif

namespace gpunode::emulation {
namespace {

constexpr std::size_t kPage = 4096;
thread_local Fibre* starting = nullptr;

}  // namespace

Stacks::~Stacks() {
  if (memory_) munmap(memory_, count_ * (kStackBytes + kPage));
}

void Stacks::reserve(std::size_t count) {
  if (count <= count_) return;
  if (memory_) munmap(memory_, count_ * (kStackBytes + kPage));
  const std::size_t bytes = count * (kStackBytes + kPage);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  memory_ = static_cast<std::byte*>(memory);
  count_ = count;
  for (std::size_t i = 0; i < count; ++i)
    mprotect(memory_ + i * (kStackBytes + kPage), kPage, PROT_NONE);
}

std::byte* Stacks::top(std::size_t index) const {
  return memory_ + (index + 1) * (kStackBytes + kPage);
}

void Fibre::prepare(std::byte* top, Function function, void* argument) {
  function_ = function;
  argument_ = argument;
  top_ = top;
  fake_stack_ = nullptr;
#ifdef GPUNODE_FIBRE_ASAN
  ASAN_UNPOISON_MEMORY_REGION(top - kStackBytes, kStackBytes);  // an abandoned fibre's frames
#endif
#if defined(__SANITIZE_THREAD__)
  if (!race_fibre_) race_fibre_ = __tsan_create_fiber(0);
#endif
#if defined(__x86_64__)
  void** place = reinterpret_cast<void**>(top);
  *--place = nullptr;  // enter() returns to nowhere
  *--place = reinterpret_cast<void*>(&Fibre::enter);
  place -= 6;  // the registers that the first switch restores
  std::fill_n(place, 6, nullptr);
  inside_ = place;
#else
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = top - kStackBytes;
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  makecontext(&inside_, &Fibre::enter, 0);
#endif
}

void Fibre::enter() {
  Fibre& self = *starting;
#ifdef GPUNODE_FIBRE_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &self.owner_stack_, &self.owner_stack_bytes_);
#endif
  self.function_(self.argument_);
  self.leave(true);
  std::abort();  // a fibre that has ended was resumed
}

void Fibre::resume() {
  starting = this;
#ifdef GPUNODE_FIBRE_ASAN
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, top_ - kStackBytes, kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  race_owner_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(race_fibre_, 0);
#endif
#if defined(__x86_64__)
  gpunode_fibre_switch(&outside_, inside_);
#else
  swapcontext(&outside_, &inside_);
#endif
#ifdef GPUNODE_FIBRE_ASAN
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void Fibre::leave([[maybe_unused]] bool for_good) {
#ifdef GPUNODE_FIBRE_ASAN
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, owner_stack_,
                                 owner_stack_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(race_owner_, 0);
#endif
#if defined(__x86_64__)
  gpunode_fibre_switch(&inside_, outside_);
#else
  swapcontext(&inside_, &outside_);
#endif
#ifdef GPUNODE_FIBRE_ASAN
  __sanitizer_finish_switch_fiber(fake_stack_, &owner_stack_, &owner_stack_bytes_);
#endif
}

}  // namespace gpunode::emulation
