// The arithmetic of a tensor core: mma.sync m16n8k16 on bf16 with a float32 sum, and the places of
// its fragments in the lanes of a warp, as the PTX ISA gives them.
//
// It does not round like a chain of additions. All terms of an output are cut toward zero at a
// common exponent, added exactly, and the sum is cut to float32: MMA-Sim (arXiv 2511.10909), which
// holds this against real devices. Hopper keeps 25 bits below the largest exponent over all 16
// products, Ampere 24 bits over 8 products at a time.
// An output is off by at most 17 * 2^-25 * M + 2^-23 * |d| on Hopper, M the largest power of two.
#pragma once

#include <array>
#include <cstdint>

#include "tests/parity/emulation/engine.hpp"

namespace gpunode::emulation {

inline constexpr int kRows = 16, kColumns = 8, kDepth = 16;  // of A's and D's rows, B's columns

float from_bf16(std::uint16_t bits);
std::uint16_t to_bf16(float value);  // to the nearest, ties to even; a NaN stays one

// Where a lane's elements lie: (row, column) of A, (k, column) of B, (row, column) of C and D.
struct Element {
  int row, column;
};
constexpr Element place_of_a(int lane, int i) {
  return {lane / 4 + 8 * (i / 2 % 2), 2 * (lane % 4) + i % 2 + 8 * (i / 4)};
}
constexpr Element place_of_b(int lane, int i) {
  return {2 * (lane % 4) + i % 2 + 8 * (i / 2), lane / 4};
}
constexpr Element place_of_d(int lane, int i) {
  return {lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2};
}

struct Product {
  std::array<std::array<std::uint16_t, kDepth>, kRows> a;
  std::array<std::array<std::uint16_t, kColumns>, kDepth> b;
  std::array<std::array<float, kColumns>, kRows> d;  // C before, D after
};
void multiply_add(Product& product, Rounding rounding);

}  // namespace gpunode::emulation
