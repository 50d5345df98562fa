// Which instruction set the kernels use. Each kernel body (*_body.inc) is compiled three times, in
// namespaces avx512, avx2 and portable, over the 16-lane vector of vector16.inc; one of the three
// is picked at run time. Sixteen lanes everywhere, with fused multiply-add everywhere, is what
// makes the three give the same bits.
#pragma once

#include <string_view>

namespace gpunode::cpu {

enum class Isa { portable, avx2, avx512 };

std::string_view to_string(Isa isa);
// The widest that this processor has, or what use_isa chose.
Isa current_isa();
// Narrows the choice for the whole process; false if the processor lacks it. For tests.
bool use_isa(Isa isa);

template <class Function>
Function* pick(Function* on_avx512, Function* on_avx2, Function* on_portable) {
  switch (current_isa()) {
    case Isa::avx512:
      return on_avx512;
    case Isa::avx2:
      return on_avx2;
    case Isa::portable:
      break;
  }
  return on_portable;
}

}  // namespace gpunode::cpu

// The variant of a kernel that the current instruction set asks for.
#define GPUNODE_PICK(kernel)                                                         \
  ::gpunode::cpu::pick(::gpunode::cpu::avx512::kernel, ::gpunode::cpu::avx2::kernel, \
                       ::gpunode::cpu::portable::kernel)
