// Forms of floats for slow links: right against plain references, alike on every instruction set,
// and nothing that is not finite gets lost.
#include "kernels/ops/wire_forms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/detail/isa.hpp"
#include "kernels/tensor/buffer.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::parity {
namespace {

using Floats = std::vector<float>;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Floats noise(std::uint64_t seed, std::size_t count) {
  Rng rng(seed);
  Floats values(count);
  for (float& value : values) {
    const auto whole = static_cast<std::int32_t>(rng.next() >> 32);
    value = std::ldexp(static_cast<float>(whole) * 0x1p-31f, static_cast<int>(rng.below(40)) - 30);
  }
  return values;
}

class WireForms : public ::testing::Test {
 protected:
  Bytes pack(ops::Operation<ops::PackArgs>* packer, const Floats& in, std::size_t bytes) {
    Bytes out(bytes, std::byte{0xee});
    auto done =
        packer(*stream_, workspace_, {{in.data(), {static_cast<std::int64_t>(in.size())}}, out});
    EXPECT_TRUE(done);
    return out;
  }
  Floats unpack(ops::Operation<ops::UnpackArgs>* unpacker, ByteView in, std::size_t count) {
    Floats out(count, -7.0f);
    auto done =
        unpacker(*stream_, workspace_, {in, {out.data(), {static_cast<std::int64_t>(count)}}});
    EXPECT_TRUE(done);
    return out;
  }
  Floats by_int8(const Floats& in) {
    return unpack(ops().unpack_int8, pack(ops().pack_int8, in, ops::int8_bytes(in.size())),
                  in.size());
  }
  Floats by_bf16(const Floats& in) {
    return unpack(ops().unpack_bf16, pack(ops().pack_bf16, in, ops::bf16_bytes(in.size())),
                  in.size());
  }
  Floats by_top(const Floats& in, std::size_t kept) {
    return unpack(ops().unpack_top, pack(ops().pack_top, in, ops::top_bytes(kept)), in.size());
  }
  const ops::Operations& ops() const { return backend_->operations(); }

  std::unique_ptr<ops::Backend> backend_ = cpu::open_backend();
  std::unique_ptr<tensor::Stream> stream_ = std::move(*backend_->open_stream());
  tensor::BufferPool pool_{tensor::host_memory(), 1u << 20};
  tensor::Workspace workspace_{pool_};
};

TEST_F(WireForms, bf16_rounds_to_the_nearest_and_ties_to_even) {
  const Floats values = noise(1, 1003);
  const Floats back = by_bf16(values);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_LE(std::abs(back[i] - values[i]), std::abs(values[i]) * 0x1p-8f) << values[i];
  const Floats ties = by_bf16({1 + 0x1p-8f, 1 + 3 * 0x1p-8f, 1 + 0x1.02p-8f, -0.0f, 0x1.fffp127f});
  EXPECT_EQ(ties[0], 1.0f);
  EXPECT_EQ(ties[1], 1 + 0x1p-6f);
  EXPECT_EQ(ties[2], 1 + 0x1p-7f);
  EXPECT_TRUE(ties[3] == 0 && std::signbit(ties[3]));
  EXPECT_EQ(ties[4], kInfinity);
  float faint;  // a NaN whose bits are all in the lower half
  const std::uint32_t bits = 0x7f800001u;
  std::memcpy(&faint, &bits, sizeof faint);
  const Floats special = by_bf16({faint, kInfinity, -kInfinity, kNan});
  EXPECT_TRUE(std::isnan(special[0]) && std::isnan(special[3]));
  EXPECT_TRUE(special[1] == kInfinity && special[2] == -kInfinity);
}

TEST_F(WireForms, int8_is_off_by_at_most_half_a_step_of_its_block) {
  for (std::size_t count : {1u, 15u, 255u, 256u, 257u, 3000u}) {
    const Floats values = noise(count, count);
    const Floats back = by_int8(values);
    for (std::size_t begin = 0; begin < count; begin += ops::kInt8Block) {
      const std::size_t end = std::min(begin + ops::kInt8Block, count);
      float largest = 0;
      for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(values[i]));
      for (std::size_t i = begin; i < end; ++i)
        EXPECT_LE(std::abs(back[i] - values[i]), largest / 127 * 0.5001f);
    }
  }
}

TEST_F(WireForms, int8_keeps_zero_and_what_is_too_small_as_zero) {
  Floats values(300, 0.0f);
  values[299] = 0x1p-120f;
  EXPECT_EQ(by_int8(values), Floats(300, 0.0f));
}

TEST_F(WireForms, a_value_that_is_not_finite_stays_visible_in_every_form) {
  for (float bad : {kInfinity, -kInfinity, kNan})
    for (std::size_t place : {0u, 17u, 255u, 256u, 299u}) {
      Floats values = noise(place, 300);
      values[place] = bad;
      EXPECT_FALSE(std::isfinite(by_bf16(values)[place]));
      EXPECT_FALSE(std::isfinite(by_top(values, 3)[place]));
      const Floats back = by_int8(values);
      for (std::size_t i = 0; i < back.size(); ++i)
        EXPECT_EQ(std::isfinite(back[i]), i / ops::kInt8Block != place / ops::kInt8Block);
    }
}

TEST_F(WireForms, top_keeps_the_largest_as_they_are_and_nothing_else) {
  const Floats values = noise(5, 2000);
  for (std::size_t kept : {0u, 1u, 20u, 2000u}) {
    const Floats back = by_top(values, kept);
    float smallest_kept = kInfinity, largest_left = 0;
    std::size_t count = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (back[i] != 0) {
        EXPECT_EQ(back[i], values[i]);
        ++count;
        smallest_kept = std::min(smallest_kept, std::abs(values[i]));
      } else {
        largest_left = std::max(largest_left, std::abs(values[i]));
      }
    }
    EXPECT_EQ(count, kept);
    EXPECT_GE(smallest_kept * 1.01f, largest_left);
  }
  EXPECT_EQ(by_top(Floats(100, 1.0f), 2)[1], 1.0f);
  EXPECT_EQ(by_top(Floats(100, 1.0f), 2)[2], 0.0f);
}

TEST_F(WireForms, a_strangers_bytes_are_unpacked_without_a_write_outside) {
  Rng rng(3);
  for (int round = 0; round < 50; ++round) {
    const std::size_t count = rng.below(600);
    Bytes junk(std::max(ops::int8_bytes(count), ops::top_bytes(count)));
    for (std::byte& b : junk) b = static_cast<std::byte>(rng.next() >> 56);
    const ByteView bytes(junk);
    unpack(ops().unpack_bf16, bytes.first(ops::bf16_bytes(count)), count);
    unpack(ops().unpack_int8, bytes.first(ops::int8_bytes(count)), count);
    unpack(ops().unpack_top, bytes.first(ops::top_bytes(count)), count);
  }
}

// One pass gives what adding, packing, unpacking and subtracting give one after the other.
TEST_F(WireForms, int8_with_what_was_carried_is_the_same_in_one_pass) {
  const cpu::Isa widest = cpu::current_isa();
  for (std::size_t count : {0u, 1u, 17u, 256u, 300u, 2049u})
    for (bool with_carried : {false, true}) {
      Floats values = noise(count, count);
      if (count > 1000) values[700] = kInfinity;
      const Floats carried = noise(count + 1, count), before = noise(count + 2, count);
      Floats wanted = values, lost = before;
      for (std::size_t i = 0; i < count && with_carried; ++i) wanted[i] += carried[i];
      const Bytes bytes = pack(ops().pack_int8, wanted, ops::int8_bytes(count));
      const Floats there = unpack(ops().unpack_int8, bytes, count);
      for (std::size_t i = 0; i < count; ++i)
        if (std::isfinite(wanted[i] - there[i])) lost[i] += wanted[i] - there[i];
      for (cpu::Isa isa : {cpu::Isa::portable, cpu::Isa::avx2, cpu::Isa::avx512}) {
        if (!cpu::use_isa(isa)) continue;
        Floats in_and_arrives = values, in_one = before;
        Bytes out(bytes.size(), std::byte{0xee});
        ASSERT_TRUE(ops().pack_int8_carrying(
            *stream_, workspace_,
            {.in = {in_and_arrives.data(), {static_cast<std::int64_t>(count)}},
             .carried = with_carried ? carried.data() : nullptr,
             .lost = in_one.data(),
             .arrives = in_and_arrives.data(),
             .out = out}));
        EXPECT_EQ(out, bytes);
        EXPECT_EQ(in_one, lost);
        EXPECT_TRUE(count == 0 ||
                    std::memcmp(in_and_arrives.data(), there.data(), count * sizeof(float)) == 0);
      }
      cpu::use_isa(widest);
    }
}

TEST_F(WireForms, every_instruction_set_gives_the_same_bytes_and_floats) {
  const cpu::Isa widest = cpu::current_isa();
  for (std::size_t count : {0u, 1u, 16u, 100u, 256u, 1000u, 4099u}) {
    Floats values = noise(count, count);
    if (count > 500) {
      values[3] = kNan;
      values[400] = -kInfinity;
    }
    std::vector<Bytes> int8, bf16;
    std::vector<Floats> from_int8, from_bf16;
    for (cpu::Isa isa : {cpu::Isa::portable, cpu::Isa::avx2, cpu::Isa::avx512}) {
      if (!cpu::use_isa(isa)) continue;
      int8.push_back(pack(ops().pack_int8, values, ops::int8_bytes(count)));
      bf16.push_back(pack(ops().pack_bf16, values, ops::bf16_bytes(count)));
      from_int8.push_back(unpack(ops().unpack_int8, int8.back(), count));
      from_bf16.push_back(unpack(ops().unpack_bf16, bf16.back(), count));
    }
    cpu::use_isa(widest);
    const std::size_t bytes = count * sizeof(float);
    for (std::size_t i = 1; i < int8.size(); ++i) {
      EXPECT_EQ(int8[i], int8[0]);
      EXPECT_EQ(bf16[i], bf16[0]);
      EXPECT_TRUE(bytes == 0 || std::memcmp(from_int8[i].data(), from_int8[0].data(), bytes) == 0);
      EXPECT_TRUE(bytes == 0 || std::memcmp(from_bf16[i].data(), from_bf16[0].data(), bytes) == 0);
    }
  }
}

}  // namespace
}  // namespace gpunode::parity
