// The emulation itself: the layouts and the rounding of tensor cores, and that it finds what a GPU
// would do wrong: a missing barrier, lanes that part, an address outside, a copy not waited for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/cuda/toolkit/launch.hpp"
#include "kernels/cuda/toolkit/warp.cuh"
#include "tests/parity/emulation/guarded.hpp"

namespace gpunode::emulation {
namespace {

using cuda::shared_address;
using cuda::shared_pointer;
using ::testing::HasSubstr;
constexpr unsigned kAllLanes = 0xffffffff;
constexpr Schedule kSchedules[] = {Schedule::first_warp, Schedule::last_warp, Schedule::random};

// Every test begins with the settings and the report as new.
class Emulation : public ::testing::Test {
 protected:
  Emulation() { settings() = {}, report() = {}; }
  ~Emulation() override { settings() = {}, report() = {}; }
};

// --- tensor cores ---------------------------------------------------------------------------------

// A product whose terms lie 2^-range to 2^range apart.
Product random_product(std::mt19937_64& random, int range) {
  std::uniform_real_distribution<float> value(-1, 1);
  std::uniform_int_distribution<int> exponent(-range, range);
  const auto next = [&] { return std::ldexp(value(random), exponent(random)); };
  Product product;
  for (auto& row : product.a)
    for (auto& one : row) one = to_bf16(next());
  for (auto& row : product.b)
    for (auto& one : row) one = to_bf16(next());
  for (auto& row : product.d)
    for (auto& one : row) one = next();
  return product;
}

struct Exact {
  double sum, largest_power;
};
Exact exact(const Product& product, int row, int column) {
  double sum = product.d[row][column], largest = std::abs(sum);
  for (int k = 0; k < kDepth; ++k) {
    const double a = from_bf16(product.a[row][k]), b = from_bf16(product.b[k][column]);
    sum += a * b;
    largest = std::max(largest, std::abs(a * b));
  }
  return {sum, largest == 0 ? 0 : std::exp2(std::floor(std::log2(largest)))};
}

// Ampere's second half begins with a sum that may be 18 times the largest term.
TEST_F(Emulation, AProductIsWithinTheBoundOfItsRounding) {
  std::mt19937_64 random(7);
  double worst = 0;
  for (int round = 0; round < 60; ++round) {
    const Product before = random_product(random, round % 12);
    Product hopper = before, ampere = before;
    multiply_add(hopper, Rounding::hopper);
    multiply_add(ampere, Rounding::ampere);
    for (int row = 0; row < kRows; ++row)
      for (int column = 0; column < kColumns; ++column) {
        const auto [sum, power] = exact(before, row, column);
        const double cut = std::ldexp(std::abs(sum), -23);
        const double error = std::abs(hopper.d[row][column] - sum);
        EXPECT_LE(error, 17 * std::ldexp(power, -25) + cut);
        EXPECT_LE(std::abs(ampere.d[row][column] - sum), 208 * std::ldexp(power, -24) + cut);
        worst = std::max(worst, error / power);
      }
  }
  EXPECT_GT(worst, std::ldexp(1.0, -25)) << "it would be exact, which no device is";
}

// What is cut is lost on one side: long sums of positive terms come out too small.
TEST_F(Emulation, LongSumsOfPositiveTermsAreBiasedTowardZero) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<float> value(0, 1);
  Product product = {};
  double sums[kRows][kColumns] = {}, bias = 0;
  for (int part = 0; part < 192; ++part) {
    for (auto& row : product.a)
      for (auto& one : row) one = to_bf16(value(random));
    for (auto& row : product.b)
      for (auto& one : row) one = to_bf16(value(random));
    for (int row = 0; row < kRows; ++row)
      for (int column = 0; column < kColumns; ++column)
        for (int k = 0; k < kDepth; ++k)
          sums[row][column] +=
              double{from_bf16(product.a[row][k])} * from_bf16(product.b[k][column]);
    multiply_add(product, Rounding::hopper);
  }
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kColumns; ++column)
      bias += (product.d[row][column] / sums[row][column] - 1) / (kRows * kColumns);
  EXPECT_NEAR(bias, -9e-6, 3e-6);
}

// One large term and fifteen that only 25 bits below it can hold.
TEST_F(Emulation, HopperKeepsOneBitMoreThanAmpereAndBothCutTowardZero) {
  Product product = {};
  for (int k = 0; k < kDepth; ++k) {
    product.a[0][k] = to_bf16(k == 0 ? 1.0f : std::ldexp(1.0f, -25));
    product.b[k][0] = to_bf16(1);
  }
  Product ampere = product;
  multiply_add(product, Rounding::hopper);
  EXPECT_EQ(product.d[0][0], 1 + std::ldexp(3.0f, -23)) << "15/4 of the last place, cut";
  multiply_add(ampere, Rounding::ampere);
  EXPECT_EQ(ampere.d[0][0], 1);
  Product negative = {};
  negative.a[0][0] = to_bf16(-1), negative.b[0][0] = to_bf16(1);
  negative.d[0][0] = std::ldexp(-1.75f, -24);
  multiply_add(negative, Rounding::hopper);
  EXPECT_EQ(negative.d[0][0], -1);
}

TEST_F(Emulation, ZerosAndWhatIsNotFiniteGoThroughAProduct) {
  Product product = {};
  product.d[3][4] = 5;
  product.a[0][0] = to_bf16(INFINITY), product.b[0][0] = to_bf16(1);
  product.d[1][0] = NAN;
  multiply_add(product, Rounding::hopper);
  EXPECT_EQ(product.d[3][4], 5);
  EXPECT_EQ(product.d[0][0], INFINITY);
  EXPECT_TRUE(std::isnan(product.d[1][0]));
  EXPECT_TRUE(std::isnan(product.d[0][1])) << "infinity times zero";
  EXPECT_EQ(product.d[5][5], 0);
}

TEST_F(Emulation, Bf16IsRoundedToTheNearestWithTiesToEven) {
  EXPECT_EQ(to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(to_bf16(1 + std::ldexp(1.0f, -8)), 0x3f80) << "a tie goes to the even";
  EXPECT_EQ(to_bf16(1 + std::ldexp(3.0f, -8)), 0x3f82);
  EXPECT_EQ(to_bf16(1 + std::ldexp(1.0f, -8) + std::ldexp(1.0f, -20)), 0x3f81);
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(NAN))));
}

// Matrix m, row r, column c of 8 x 8 has the value 64 * m + 8 * r + c; matrices lie one after the
// other, rows of 16 bytes.
struct Loaded {
  unsigned (*plain)[4], (*transposed)[4];  // a lane
};
__global__ void load_numbers(Loaded out) {
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 256; i += 32)
    shared_pointer<std::uint16_t>(shared_address())[i] = static_cast<std::uint16_t>(i);
  __syncwarp();
  cuda::load_matrices(out.plain[lane], shared_address() + 16 * lane);
  cuda::load_transposed(out.transposed[lane], shared_address() + 16 * lane);
}

TEST_F(Emulation, MatricesComeToLanesAsTheInstructionSetSays) {
  unsigned plain[32][4], transposed[32][4];
  GPUNODE_LAUNCH_SHARED(load_numbers, 1, 32, 512, nullptr, (Loaded{plain, transposed}));
  ASSERT_EQ(cudaGetLastError(), cudaSuccess) << report().error;
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned m = 0; m < 4; ++m) {
      const unsigned g = lane / 4, t = lane % 4;
      const unsigned first = 64 * m + 8 * g + 2 * t;  // [g][2t], and [g][2t + 1] above it
      EXPECT_EQ(plain[lane][m], first | (first + 1) << 16);
      const unsigned upper = 64 * m + 8 * (2 * t) + g;  // [2t][g], and [2t + 1][g] above it
      EXPECT_EQ(transposed[lane][m], upper | (upper + 8) << 16);
    }
  EXPECT_EQ(report().bank_conflicts, 0u) << "rows one after the other lie in all banks";
}

// a (16, 16), b (16, 8), both by rows: a is loaded as it lies, b transposed.
struct SmallProduct {
  const float *a, *b;
  float* d;            // (16, 8)
  unsigned row_bytes;  // of both in shared memory
};
__global__ void multiply_small(SmallProduct work) {
  const unsigned lane = threadIdx.x, base = shared_address(), b_base = base + 16 * work.row_bytes;
  for (unsigned i = lane; i < 256; i += 32)
    *shared_pointer<std::uint16_t>(base + i / 16 * work.row_bytes + i % 16 * 2) =
        to_bf16(work.a[i]);
  for (unsigned i = lane; i < 128; i += 32)
    *shared_pointer<std::uint16_t>(b_base + i / 8 * work.row_bytes + i % 8 * 2) =
        to_bf16(work.b[i]);
  __syncwarp();
  unsigned a[4], b[4];
  cuda::load_matrices(a, base + lane % 16 * work.row_bytes + lane / 16 * 16);
  cuda::load_transposed(b, b_base + lane % 16 * work.row_bytes);  // matrices 2 and 3 are not used
  float d[4] = {1, 1, 1, 1};
  cuda::multiply_add(d, a, b[0], b[1]);
  for (unsigned i = 0; i < 4; ++i)
    work.d[(lane / 4 + i / 2 * 8) * 8 + 2 * (lane % 4) + i % 2] = d[i];
}

TEST_F(Emulation, AWarpMultipliesMatrices) {
  std::vector<float> a(256), b(128), d(128);
  for (std::size_t i = 0; i < 256; ++i) a[i] = static_cast<float>(i * 7 % 23) - 11;
  for (std::size_t i = 0; i < 128; ++i) b[i] = static_cast<float>(i * 5 % 19) - 9;
  GPUNODE_LAUNCH_SHARED(multiply_small, 1, 32, 4096, nullptr,
                        (SmallProduct{a.data(), b.data(), d.data(), 128}));
  ASSERT_EQ(cudaGetLastError(), cudaSuccess) << report().error;
  for (std::size_t row = 0; row < 16; ++row)
    for (std::size_t column = 0; column < 8; ++column) {
      float sum = 1;
      for (std::size_t k = 0; k < 16; ++k) sum += a[row * 16 + k] * b[k * 8 + column];
      EXPECT_EQ(d[row * 8 + column], sum) << row << " " << column;
    }
  EXPECT_EQ(report().bank_conflicts, 8u * 7) << "rows 128 bytes apart lie in the same four banks";
}

// --- shared memory, barriers and copies -----------------------------------------------------------

__global__ void reverse_numbers(int* out) {
  __shared__ int numbers[96];
  numbers[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = numbers[95 - threadIdx.x];
}

TEST_F(Emulation, AMissingBarrierIsFoundBySomeSchedule) {
  int wrong_runs = 0;
  for (const bool missing : {false, true}) {
    for (Schedule schedule : kSchedules) {
      settings().schedule = schedule;
      int out[96] = {};
      GPUNODE_LAUNCH(reverse_numbers, 1, 96, nullptr, out);
      EXPECT_EQ(cudaGetLastError(), cudaSuccess) << report().error;
      bool right = true;
      for (int i = 0; i < 96; ++i) right = right && out[i] == 95 - i;
      EXPECT_TRUE(missing || right);
      wrong_runs += !right;
    }
    ASSERT_EQ(report().points.size(), 1u);
    settings().weakened = *report().points.begin();
  }
  EXPECT_EQ(wrong_runs, 3);
}

struct Unset {
  float *fixed, *dynamic;
};
__global__ void read_unset(Unset out) {
  __shared__ float values[32];
  out.fixed[blockIdx.x] = values[threadIdx.x];
  values[threadIdx.x] = 1;
  float* dynamic = shared_pointer<float>(shared_address());
  out.dynamic[blockIdx.x] = dynamic[threadIdx.x];
  dynamic[threadIdx.x] = 1;
}

TEST_F(Emulation, SharedMemoryIsNotANumberAtTheStartOfEachBlock) {
  float fixed[9] = {}, dynamic[9] = {};
  GPUNODE_LAUNCH_SHARED(read_unset, 9, 32, 128, nullptr, (Unset{fixed, dynamic}));
  ASSERT_EQ(cudaGetLastError(), cudaSuccess) << report().error;
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(std::isnan(fixed[i]) && std::isnan(dynamic[i]));
}

struct CopyWork {
  const float* from;
  float *before, *after, *zeros;  // a thread
};
__global__ void copy_and_read(CopyWork work) {
  const unsigned mine = shared_address() + 32 * threadIdx.x;
  const float* first = shared_pointer<float>(mine);
  cuda::copy_async(mine, work.from + 4 * threadIdx.x, true);
  cuda::commit_copies();
  cuda::copy_async(mine + 16, work.from, false);
  cuda::commit_copies();
  work.before[threadIdx.x] = *first;
  cuda::await_copies<1>();
  work.after[threadIdx.x] = *first;
  cuda::await_copies<0>();
  work.zeros[threadIdx.x] = first[4];
}

TEST_F(Emulation, ACopyLandsAtOnceOrWhenItsGroupIsAwaited) {
  float from[256], before[64], after[64], zeros[64];
  for (int i = 0; i < 256; ++i) from[i] = static_cast<float>(i);
  for (Landing landing : {Landing::at_once, Landing::at_wait}) {
    settings().landing = landing;
    GPUNODE_LAUNCH_SHARED(copy_and_read, 1, 64, 2048, nullptr,
                          (CopyWork{from, before, after, zeros}));
    ASSERT_EQ(cudaGetLastError(), cudaSuccess) << report().error;
    for (int i = 0; i < 64; ++i) {
      EXPECT_EQ(std::isnan(before[i]), landing == Landing::at_wait);
      EXPECT_EQ(after[i], from[4 * i]);
      EXPECT_EQ(zeros[i], 0);
    }
  }
}

// --- what a warp does together --------------------------------------------------------------------

struct Exchanged {
  int *up, *down, *crossed, *first, *votes;  // a lane
};
__global__ void exchange(Exchanged out) {
  const int lane = static_cast<int>(threadIdx.x);
  out.up[lane] = __shfl_up_sync(kAllLanes, lane, 3);
  out.down[lane] = __shfl_down_sync(kAllLanes, lane, 2, 8);
  out.crossed[lane] = __shfl_xor_sync(kAllLanes, lane, 5);
  out.first[lane] = __shfl_sync(kAllLanes, lane, 1, 16);
  if (lane < 16)
    out.votes[lane] = static_cast<int>(__ballot_sync(0x0000ffff, lane % 3 == 0));
  else
    out.votes[lane] = __any_sync(0xffff0000, lane == 40) + 2 * __all_sync(0xffff0000, lane > 15);
}

TEST_F(Emulation, LanesExchangeAndVote) {
  int up[32], down[32], crossed[32], first[32], votes[32];
  for (Schedule schedule : kSchedules) {
    settings().schedule = schedule;
    GPUNODE_LAUNCH(exchange, 1, 32, nullptr, (Exchanged{up, down, crossed, first, votes}));
    ASSERT_EQ(cudaGetLastError(), cudaSuccess) << report().error;
    for (int lane = 0; lane < 32; ++lane) {
      EXPECT_EQ(up[lane], lane < 3 ? lane : lane - 3);
      EXPECT_EQ(down[lane], lane % 8 < 6 ? lane + 2 : lane);
      EXPECT_EQ(crossed[lane], lane ^ 5);
      EXPECT_EQ(first[lane], lane / 16 * 16 + 1);
      EXPECT_EQ(votes[lane], lane < 16 ? 0x9249 : 2);
    }
  }
}

struct Counts {
  int* sum;
  unsigned *largest, *bits;
};
__global__ void count_up(Counts out) {
  if (threadIdx.x % 2 == 0) return;  // those that leave hold no barrier up
  __syncthreads();
  const unsigned mine = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(out.sum, 2);
  atomicMax(out.largest, mine);
  atomicOr(out.bits, 1u << mine % 32);
}

TEST_F(Emulation, BlocksCountTogether) {
  int sum = 1;
  unsigned largest = 0, bits = 0;
  GPUNODE_LAUNCH(count_up, 50, 80, nullptr, (Counts{&sum, &largest, &bits}));
  ASSERT_EQ(cudaGetLastError(), cudaSuccess) << report().error;
  EXPECT_EQ(sum, 1 + 2 * 50 * 40);
  EXPECT_EQ(largest, 50u * 80 - 1);
  EXPECT_EQ(bits, 0xaaaaaaaa);
}

// --- what is wrong fails, and says where ----------------------------------------------------------

__global__ void part_in_a_shuffle(int* out) {
  if (threadIdx.x < 16)
    out[threadIdx.x] = __shfl_xor_sync(kAllLanes, 1, 1);
  else
    out[threadIdx.x] = __shfl_xor_sync(kAllLanes, 2, 1);
}
__global__ void part_at_a_barrier(int* out) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
  out[threadIdx.x] = 1;
}
__global__ void leave_a_warp(int* out) {
  if (threadIdx.x == 7) return;
  __syncwarp();
  out[threadIdx.x] = 1;
}
__global__ void load_outside(int* out) {
  unsigned loaded[4];
  cuda::load_matrices(loaded, shared_address() + 16 * threadIdx.x + 16);
  out[threadIdx.x] = static_cast<int>(loaded[0]);
}
__global__ void copy_askew(int* out) {
  cuda::copy_async(shared_address(), out + 1, true);
}

TEST_F(Emulation, WhatIsWrongFailsAndSaysWhy) {
  alignas(16) int out[64];
  const auto error_of = [&](void (*kernel)(int*), std::size_t shared_bytes) {
    report() = {};
    GPUNODE_LAUNCH_SHARED(kernel, 1, 64, shared_bytes, nullptr, out);
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
    return report().error;
  };
  EXPECT_THAT(error_of(part_in_a_shuffle, 0), HasSubstr("different operations"));
  EXPECT_THAT(error_of(part_at_a_barrier, 0), HasSubstr("different places"));
  EXPECT_THAT(error_of(leave_a_warp, 0), HasSubstr("the kernel's end"));
  EXPECT_THAT(error_of(load_outside, 512), HasSubstr("shared memory at 512 of 512"));
  EXPECT_THAT(error_of(copy_askew, 512), HasSubstr("not aligned"));
  EXPECT_THAT(error_of(load_outside, 49168), HasSubstr("49152 are allowed"));
  report() = {};
  GPUNODE_LAUNCH(leave_a_warp, 0, 64, nullptr, out);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "asked once, it is told";
}

TEST_F(Emulation, MoreSharedMemoryHasToBeAskedFor) {
  int out[64];
  cudaFuncSetAttribute(reverse_numbers, cudaFuncAttributeMaxDynamicSharedMemorySize, 60 << 10);
  GPUNODE_LAUNCH_SHARED(reverse_numbers, 1, 64, 60 << 10, nullptr, out);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << report().error;
  cudaFuncSetAttribute(reverse_numbers, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10);
  GPUNODE_LAUNCH_SHARED(reverse_numbers, 1, 64, 100 << 10, nullptr, out);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure) << "more than the least of our devices has";
}

TEST_F(Emulation, AnArrayEndsWhereItEnds) {
  Guarded<float> values(5);
  values.data()[4] = 1;
  EXPECT_TRUE(std::isnan(values.values()[3]));
  EXPECT_DEATH(*const_cast<volatile float*>(values.data() + 8) = 1, "");
}

}  // namespace
}  // namespace gpunode::emulation
