#include "tests/parity/hostile/fault_trap.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

namespace gpunode::hostile {
namespace {

constexpr std::uintptr_t kPage = 4096;

struct Window {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::size_t> bytes{0};
};
std::array<Window, 64> windows;  // read by the handler, so no lock
struct sigaction earlier;
thread_local FaultTrap::Scope* current = nullptr;

void say(const char* text) {
  static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text)));
}

bool is_write(const ucontext_t* context) {
#if defined(__x86_64__)
  return context->uc_mcontext.gregs[REG_ERR] & 2;
#else
  return false;
#endif
}

bool in_a_window(std::uintptr_t address) {
  for (const Window& window : windows) {
    const std::uintptr_t begin = window.begin.load();
    if (begin != 0 && address >= begin && address - begin < window.bytes.load()) return true;
  }
  return false;
}

}  // namespace

void FaultTrap::on_signal(int number, void* info, void* context) {
  auto* address = static_cast<std::byte*>(static_cast<siginfo_t*>(info)->si_addr);
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  Scope* scope = current;
  if (scope && address >= scope->begin_ && address < scope->begin_ + scope->bytes_) {
    if (!scope->fault_.address)
      scope->fault_ = {address, is_write(static_cast<ucontext_t*>(context))};
    mprotect(reinterpret_cast<void*>(value / kPage * kPage), kPage, PROT_READ | PROT_WRITE);
    return;
  }
  if (in_a_window(value)) {
    if (scope) {
      say("hostile device: the operation ");
      say(scope->operation_);
      say(" follows a device's address that its visit() in kernels/ops/access.hpp leaves out\n");
    } else {
      say("hostile device: the host touched the device's memory\n");
    }
  }
  sigaction(number, &earlier, nullptr);  // the same instruction meets it again
}

void install_fault_trap() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = [](int number, siginfo_t* info, void* context) {
      FaultTrap::on_signal(number, info, context);
    };
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &earlier);
  });
}

void FaultTrap::watch_window(const void* begin, std::size_t bytes) {
  install_fault_trap();
  for (Window& window : windows) {
    std::uintptr_t none = 0;
    if (!window.begin.compare_exchange_strong(none, reinterpret_cast<std::uintptr_t>(begin)))
      continue;
    window.bytes = bytes;
    return;
  }
}

void FaultTrap::forget_window(const void* begin) {
  for (Window& window : windows)
    if (window.begin == reinterpret_cast<std::uintptr_t>(begin)) {
      window.bytes = 0;
      window.begin = 0;
    }
}

FaultTrap::Scope::Scope(const char* operation, std::byte* begin, std::size_t bytes)
    : operation_(operation), begin_(begin), bytes_(bytes) {
  current = this;
}

FaultTrap::Scope::~Scope() {
  current = nullptr;
}

}  // namespace gpunode::hostile
