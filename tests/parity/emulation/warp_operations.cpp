#include "tests/parity/emulation/warp_operations.hpp"

#include <algorithm>

namespace gpunode::emulation {
namespace {

constexpr unsigned kAllLanes = 0xffffffff;

struct Vote {
  bool predicate;
  unsigned result;
};

struct Matrices {
  const std::byte* row;
  unsigned address;
  unsigned* out;
};

// The eight rows of a matrix come in one pass if they lie in different groups of four banks.
void count_conflicts(void* const* slots) {
  std::uint64_t passes = 0;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    unsigned uses[8] = {};
    for (unsigned row = 0; row < 8; ++row)
      ++uses[static_cast<Matrices*>(slots[8 * matrix + row])->address / 16 % 8];
    passes += *std::max_element(uses, uses + 8) - 1;
  }
  count_bank_conflicts(passes);
}

template <bool kTransposed>
void load(void* const* slots, unsigned) {
  count_conflicts(slots);
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    for (unsigned matrix = 0; matrix < 4; ++matrix) {
      std::uint16_t pair[2];
      for (unsigned i = 0; i < 2; ++i) {
        const unsigned along = 2 * (lane % 4) + i, across = lane / 4;
        const unsigned row = kTransposed ? along : across, column = kTransposed ? across : along;
        const auto* from = static_cast<Matrices*>(slots[8 * matrix + row])->row;
        std::memcpy(&pair[i], from + 2 * column, 2);
      }
      static_cast<Matrices*>(slots[lane])->out[matrix] = pair[0] | static_cast<unsigned>(pair[1])
                                                                       << 16;
    }
  }
}

struct Fragments {
  const unsigned *a, *b;
  float* d;
};

std::uint16_t half(unsigned word, int i) {
  return static_cast<std::uint16_t>(word >> 16 * i);
}

void multiply(void* const* slots, unsigned) {
  Product product;
  for (int lane = 0; lane < static_cast<int>(kWarp); ++lane) {
    const auto& one = *static_cast<Fragments*>(slots[lane]);
    for (int i = 0; i < 8; ++i) {
      const Element place = place_of_a(lane, i);
      product.a[place.row][place.column] = half(one.a[i / 2], i % 2);
    }
    for (int i = 0; i < 4; ++i) {
      const Element b = place_of_b(lane, i), d = place_of_d(lane, i);
      product.b[b.row][b.column] = half(one.b[i / 2], i % 2);
      product.d[d.row][d.column] = one.d[i];
    }
  }
  multiply_add(product, settings().rounding);
  for (int lane = 0; lane < static_cast<int>(kWarp); ++lane)
    for (int i = 0; i < 4; ++i) {
      const Element d = place_of_d(lane, i);
      static_cast<Fragments*>(slots[lane])->d[i] = product.d[d.row][d.column];
    }
}

}  // namespace

unsigned ballot(unsigned mask, bool predicate, Site site) {
  Vote vote = {predicate, 0};
  meet(
      [](void* const* slots, unsigned lanes) {
        unsigned result = 0;
        for (unsigned i = 0; i < kWarp; ++i)
          if (lanes >> i & 1 && static_cast<Vote*>(slots[i])->predicate) result |= 1u << i;
        for (unsigned i = 0; i < kWarp; ++i)
          if (lanes >> i & 1) static_cast<Vote*>(slots[i])->result = result;
      },
      &vote, mask, site);
  return vote.result;
}

void load_matrices(unsigned (&out)[4], unsigned row, int line, const char* file) {
  Matrices slot = {shared_at(row, 16, {file, line}), row, out};
  meet(&load<false>, &slot, kAllLanes, {file, line});
}

void load_transposed(unsigned (&out)[4], unsigned row, int line, const char* file) {
  Matrices slot = {shared_at(row, 16, {file, line}), row, out};
  meet(&load<true>, &slot, kAllLanes, {file, line});
}

void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, int line,
                  const char* file) {
  const unsigned b[2] = {b0, b1};
  Fragments slot = {a, b, d};
  meet(&multiply, &slot, kAllLanes, {file, line});
}

unsigned pack_bf16(float low, float high) {
  return to_bf16(low) | static_cast<unsigned>(to_bf16(high)) << 16;
}

}  // namespace gpunode::emulation
