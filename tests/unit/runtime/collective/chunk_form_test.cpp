#include "runtime/collective/chunk_form.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace gpunode::collective {
namespace {

using ::testing::ElementsAre;

// Whole numbers in a byte each.
std::shared_ptr<ChunkForm> whole_numbers(bool feedback) {
  WireForm form;
  form.bytes = [](std::size_t count) { return count; };
  form.encode = [](std::span<const float> in, MutableByteView out) {
    for (std::size_t i = 0; i < in.size(); ++i)
      out[i] = static_cast<std::byte>(static_cast<int>(in[i]));
  };
  form.decode = [](ByteView in, std::span<float> out) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(std::to_integer<int>(in[i]));
  };
  return chunk_form_of(std::make_shared<const WireForms>(WireForms{form, form, feedback}));
}

std::vector<int> numbers(const SharedBytes& bytes) {
  std::vector<int> values;
  for (const std::byte byte : bytes.view) values.push_back(std::to_integer<int>(byte));
  return values;
}

SharedFloats floats(std::vector<float> values) {
  return std::make_shared<const std::vector<float>>(std::move(values));
}

TEST(PlainChunkForm, sends_the_floats_where_they_lie) {
  const auto form = chunk_form_of(nullptr);
  const SharedFloats sum = floats({1, 2, 3, 4});
  const SharedBytes bytes = form->pack_partial(sum, {1, 2}, true);
  EXPECT_TRUE(form->is_plain());
  EXPECT_EQ(bytes.size(), form->partial_bytes(2));
  EXPECT_EQ(bytes.view.data(), reinterpret_cast<const std::byte*>((*sum).data() + 1));
  EXPECT_EQ(form->unpack_partial(bytes.view, 2, 0), (*sum).data() + 1);
  std::vector<float> place{5, 6};
  EXPECT_EQ(form->pack_result(place, {0, 2}).owner, nullptr);
}

TEST(PlainChunkForm, moves_floats_that_arrived_at_an_odd_address) {
  const auto form = chunk_form_of(nullptr);
  const std::vector<float> sent{1, 2};
  alignas(float) std::byte bytes[1 + 2 * sizeof(float)];
  std::memcpy(bytes + 1, sent.data(), 2 * sizeof(float));
  const float* floats = form->unpack_partial(ByteView(bytes).subspan(1), 2, 3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(floats) % alignof(float), 0u);
  EXPECT_THAT(std::span(floats, 2), ElementsAre(1.0f, 2.0f));
}

TEST(PlainChunkForm, puts_a_result_in_its_place_and_knows_it_again) {
  const auto form = chunk_form_of(nullptr);
  const SharedFloats sum = floats({1, 2});
  const ByteView bytes = std::as_bytes(std::span(*sum));
  std::vector<float> place(2);
  EXPECT_EQ(form->unpack_result(bytes, place), digest_of(bytes));
  EXPECT_EQ(place, *sum);
  EXPECT_EQ(form->unpack_result(std::as_bytes(std::span(place)), place), digest_of(bytes));
  EXPECT_TRUE(form->repeats_result(bytes, place));
  place[1] = 3;
  EXPECT_FALSE(form->repeats_result(bytes, place));
}

TEST(PackedChunkForm, makes_of_the_owners_sum_what_others_unpack) {
  const auto form = whole_numbers(false);
  std::vector<float> owners{1.5f, 2.25f}, others(2);
  const SharedBytes bytes = form->pack_result(owners, {0, 2});
  EXPECT_THAT(numbers(bytes), ElementsAre(1, 2));
  EXPECT_EQ(form->unpack_result(bytes.view, others), digest_of(std::as_bytes(std::span(owners))));
  EXPECT_EQ(others, owners);
  EXPECT_TRUE(form->repeats_result(bytes.view, owners));
}

TEST(PackedChunkForm, adds_what_a_committed_step_lost_to_one_sum_of_the_next) {
  const auto form = whole_numbers(true);
  const SharedFloats sum = floats({1.75f, 2.5f});
  form->on_begin(2);
  EXPECT_THAT(numbers(form->pack_partial(sum, {0, 2}, true)), ElementsAre(1, 2));
  form->on_begin(2);  // the first was not committed
  EXPECT_THAT(numbers(form->pack_partial(sum, {0, 2}, true)), ElementsAre(1, 2));
  form->on_commit();
  form->on_begin(2);
  EXPECT_THAT(numbers(form->pack_partial(sum, {0, 2}, false)), ElementsAre(1, 2));
  EXPECT_THAT(numbers(form->pack_partial(sum, {0, 2}, true)), ElementsAre(2, 3));
  form->forget();
  form->on_begin(2);
  EXPECT_THAT(numbers(form->pack_partial(sum, {0, 2}, true)), ElementsAre(1, 2));
}

TEST(PackedChunkForm, keeps_what_was_carried_for_elements_that_it_does_not_pack) {
  const auto form = whole_numbers(true);
  const SharedFloats sum = floats({1.75f, 2.5f});
  form->on_begin(2);
  form->pack_partial(sum, {0, 2}, true);
  form->on_commit();
  form->on_begin(2);
  form->keep({0, 1});  // and of the second element nothing is lost
  form->on_commit();
  form->on_begin(2);
  EXPECT_THAT(numbers(form->pack_partial(sum, {0, 2}, true)), ElementsAre(2, 2));
}

}  // namespace
}  // namespace gpunode::collective
