// A batch never changes an answer: rows of a product with independent rows have the same bits alone
// and among others, by one thread and by several, with each instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/detail/isa.hpp"
#include "kernels/tensor/buffer.hpp"
#include "tests/parity/op_table.hpp"

namespace gpunode::parity {
namespace {

struct Weights {  // (N, K)
  std::int64_t columns, inner;
  Vector values = numbers(7, columns*inner), bias = numbers(8, columns);
};

class IndependentRows : public ::testing::Test {
 protected:
  ~IndependentRows() override { cpu::use_isa(widest_); }

  // Of rows [first, first + count) of x; with weights in a format, packed there.
  static Vector product(ops::Backend& backend, const Weights& w, const Vector& x,
                        std::int64_t first, std::int64_t count,
                        std::optional<ops::GeluForm> gelu = {}, ByteView packed = {},
                        ops::WeightFormat format = ops::WeightFormat::fp32) {
    auto stream = backend.open_stream();
    tensor::BufferPool none(backend.memory(), 0);
    tensor::Workspace workspace(none);
    Vector y(static_cast<std::size_t>(count * w.columns), 0.5f);
    const ops::MatmulArgs args{.a = {x.data() + first * w.inner, {count, w.inner}},
                               .b = {w.values.data(), {w.columns, w.inner}},
                               .c = {y.data(), {count, w.columns}},
                               .transpose_b = true,
                               .bias = {w.bias.data(), {w.columns}},
                               .packed_b = packed,
                               .weights = format,
                               .gelu = gelu,
                               .independent_rows = true};
    EXPECT_TRUE(backend.operations().matmul(**stream, workspace, args));
    return y;
  }

  // Whether rows [first, ...) of `all` are these.
  static bool has_rows(const Vector& all, std::int64_t first, const Weights& w,
                       const Vector& rows) {
    return std::memcmp(all.data() + first * w.columns, rows.data(), rows.size() * sizeof(float)) ==
           0;
  }

  static constexpr std::int64_t kRows = 40;
  const cpu::Isa widest_ = cpu::current_isa();
  const std::unique_ptr<ops::Backend> alone_ = cpu::open_backend({.threads = 1});
  const std::unique_ptr<ops::Backend> team_ = cpu::open_backend({.threads = 4});
};

TEST_F(IndependentRows, HaveTheBitsOfEachRowAlone) {
  for (const Weights& w :
       {Weights{211, 1187}, Weights{97, 67}, Weights{1, 16}, Weights{289, 512}}) {
    const Vector x = numbers(9, kRows * w.inner);
    cpu::use_isa(widest_);
    const Vector whole = product(*alone_, w, x, 0, kRows);
    for (cpu::Isa isa : {cpu::Isa::avx512, cpu::Isa::avx2, cpu::Isa::portable}) {
      if (!cpu::use_isa(isa)) continue;
      for (ops::Backend* backend : {alone_.get(), team_.get()}) {
        // The portable set's fused multiply-add is a library's, and slow.
        const std::int64_t step = isa == cpu::Isa::portable ? 13 : 1;
        for (std::int64_t count = 1; count <= kRows; count += step) {
          const std::int64_t first = kRows - count;
          EXPECT_TRUE(has_rows(whole, first, w, product(*backend, w, x, first, count)))
              << count << " rows of " << shape_text({w.columns, w.inner}) << ", "
              << cpu::to_string(isa) << ", " << (backend == team_.get() ? "a team" : "alone");
        }
      }
    }
  }
}

TEST_F(IndependentRows, HaveTheBitsOfEachRowAloneAmongManyBlocks) {
  const Weights w{53, 1543};
  constexpr std::int64_t kMany = 131;
  const Vector x = numbers(9, kMany * w.inner);
  const Vector whole = product(*team_, w, x, 0, kMany);
  for (std::int64_t row = 0; row < kMany; ++row)
    EXPECT_TRUE(has_rows(whole, row, w, product(*alone_, w, x, row, 1))) << row;
}

TEST_F(IndependentRows, DoNotFollowFromWhatStandsBesideThem) {
  const Weights w{61, 129};
  Vector x = numbers(9, 5 * w.inner);
  const Vector before = product(*team_, w, x, 0, 5);
  for (std::int64_t k = 0; k < w.inner; ++k)
    for (const std::int64_t row : {0, 1, 3, 4})
      x[static_cast<std::size_t>(row * w.inner + k)] = k % 3 == 0 ? HUGE_VALF : -1e30f;
  const Vector after = product(*team_, w, x, 2, 1);
  EXPECT_TRUE(has_rows(before, 2, w, after));
  const Vector among = product(*team_, w, x, 0, 5);
  EXPECT_EQ(std::memcmp(among.data() + 2 * w.columns, after.data(), after.size() * sizeof(float)),
            0);
}

TEST_F(IndependentRows, KeepTheirBitsThroughGelu) {
  const Weights w{45, 83};
  const Vector x = numbers(9, kRows * w.inner);
  for (const ops::GeluForm form : {ops::GeluForm::tanh, ops::GeluForm::erf}) {
    const Vector whole = product(*team_, w, x, 0, kRows, form);
    for (std::int64_t row = 0; row < kRows; ++row)
      EXPECT_TRUE(has_rows(whole, row, w, product(*alone_, w, x, row, 1, form))) << row;
  }
}

// A packed matrix gives the bits of the numbers that it stands for.
TEST_F(IndependentRows, HaveTheBitsOfWeightsThatWereUnpacked) {
  for (const ops::WeightFormat format : ops::kWeightFormats)
    for (const auto& [columns, inner] :
         {std::pair<std::int64_t, std::int64_t>{211, 1184}, {97, 64}, {1, 32}, {289, 512}}) {
      Weights w{columns, inner};
      const std::size_t row = ops::weight_row_bytes(format, inner);
      Bytes packed(row * static_cast<std::size_t>(columns));
      ASSERT_TRUE(ops::pack_weights(format, w.values, inner, packed));
      for (std::size_t at = 0; at < static_cast<std::size_t>(columns); ++at)
        ops::unpack_weights(format, ByteView(packed).subspan(at * row, row),
                            std::span(w.values).subspan(at * static_cast<std::size_t>(inner),
                                                        static_cast<std::size_t>(inner)));
      if (format == ops::WeightFormat::fp32) packed.clear();
      const Vector x = numbers(9, kRows * inner);
      cpu::use_isa(widest_);
      const Vector whole = product(*alone_, w, x, 0, kRows);
      for (cpu::Isa isa : {cpu::Isa::avx512, cpu::Isa::avx2, cpu::Isa::portable}) {
        if (!cpu::use_isa(isa)) continue;
        for (const std::int64_t count : {1, 2, 5, 40})
          for (ops::Backend* backend : {alone_.get(), team_.get()})
            EXPECT_TRUE(has_rows(whole, kRows - count, w,
                                 product(*backend, w, x, kRows - count, count, {}, packed, format)))
                << count << " rows of " << shape_text({columns, inner}) << " in "
                << ops::to_string(format) << ", " << cpu::to_string(isa);
      }
    }
}

}  // namespace
}  // namespace gpunode::parity
