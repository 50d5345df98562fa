#include "actors/compute/wire_forms.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/cpu_backend.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::compute {
namespace {

constexpr std::size_t kExact = 5;
constexpr std::size_t kCounts[] = {0, 1, 4, 5, 6, 261, 700};

std::vector<float> values(std::size_t count) {
  std::vector<float> made;
  for (std::size_t at = 0; at < count; ++at)
    made.push_back(static_cast<float>(mix(7, at) % 1999) / 999.0f + 1e-6f);
  return made;
}

class Forms : public ::testing::TestWithParam<job::ExchangeMode> {
 protected:
  std::unique_ptr<ops::Backend> backend_ = cpu::open_backend();
  job::ExchangeSpec spec_ = {.mode = GetParam(), .density = 0.01};
  collective::WireForm form_ = (*wire_forms_of(*backend_, spec_, kExact))->partial;
};

TEST_P(Forms, leave_the_end_of_a_chunk_as_it_is) {
  for (const std::size_t count : kCounts) {
    const std::vector<float> in = values(count);
    Bytes bytes(form_.bytes(count));
    form_.encode(in, bytes);
    std::vector<float> out(count);
    form_.decode(bytes, out);
    const auto exact = static_cast<std::ptrdiff_t>(std::min(count, kExact));
    EXPECT_TRUE(std::equal(in.end() - exact, in.end(), out.end() - exact)) << count;
    if (count > 2 * kExact) {
      EXPECT_NE(in, out) << "the rest is rounded";
    }
  }
}

TEST_P(Forms, lose_nothing_of_the_end_when_they_carry_what_is_lost) {
  if (!form_.encode_carrying) return;  // the exchange does it with encode
  for (const std::size_t count : kCounts) {
    const std::vector<float> in = values(count);
    std::vector<float> arrives(count), lost(count);
    Bytes bytes(form_.bytes(count));
    form_.encode_carrying(in, {.carried = {}, .lost = lost, .arrives = arrives}, bytes);
    std::vector<float> out(count), in_place = in, again(count);
    form_.decode(bytes, out);
    EXPECT_EQ(arrives, out) << count;
    form_.encode_carrying(in_place, {.carried = {}, .lost = again, .arrives = in_place}, bytes);
    EXPECT_EQ(in_place, out) << count;
    const auto exact = static_cast<std::ptrdiff_t>(std::min(count, kExact));
    EXPECT_EQ(std::count(lost.end() - exact, lost.end(), 0.0f), exact);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Forms,
                         ::testing::Values(job::ExchangeMode::bf16, job::ExchangeMode::int8,
                                           job::ExchangeMode::topk),
                         [](const auto& given) {
                           return std::string(job::facts_of(given.param).name);
                         });

}  // namespace
}  // namespace gpunode::compute
