#include "kernels/cpu/detail/isa.hpp"

#include <atomic>

namespace gpunode::cpu {
namespace {

Isa detect() {
  __builtin_cpu_init();
  const bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return Isa::avx512;
  return fma ? Isa::avx2 : Isa::portable;
}

std::atomic<Isa>& choice() {
  static std::atomic<Isa> isa{detect()};
  return isa;
}

}  // namespace

std::string_view to_string(Isa isa) {
  static constexpr std::string_view kNames[] = {"portable", "avx2", "avx512"};
  return kNames[static_cast<std::size_t>(isa)];
}

Isa current_isa() {
  return choice().load(std::memory_order_relaxed);
}

bool use_isa(Isa isa) {
  if (isa > detect()) return false;
  choice().store(isa, std::memory_order_relaxed);
  return true;
}

}  // namespace gpunode::cpu
