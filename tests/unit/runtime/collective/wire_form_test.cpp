// Chunks that travel in fewer bytes than their floats: here as sixteenths in 16 bits each.
#include "runtime/collective/wire_form.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/runtime/collective/exchange_group.hpp"

namespace gpunode::collective {
namespace {

constexpr float kStep = 1.0f / 16;

std::shared_ptr<const WireForms> sixteenths(bool feedback) {
  WireForm form;
  form.bytes = [](std::size_t count) { return count * 2; };
  form.encode = [](std::span<const float> in, MutableByteView out) {
    ASSERT_EQ(out.size(), in.size() * 2);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const auto whole = static_cast<std::int16_t>(std::nearbyint(in[i] / kStep));
      std::memcpy(out.data() + 2 * i, &whole, 2);
    }
  };
  form.decode = [](ByteView in, std::span<float> out) {
    ASSERT_EQ(in.size(), out.size() * 2);
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::int16_t whole;
      std::memcpy(&whole, in.data() + 2 * i, 2);
      out[i] = static_cast<float>(whole) * kStep;
    }
  };
  return std::make_shared<const WireForms>(WireForms{form, form, feedback});
}

std::vector<std::shared_ptr<ChunkForm>> forms_of(std::uint16_t members, bool feedback) {
  std::vector<std::shared_ptr<ChunkForm>> forms;
  while (forms.size() < members) forms.push_back(chunk_form_of(sixteenths(feedback)));
  return forms;
}

float worst_difference(const Values& a, const Values& b) {
  float worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

TEST(WireForm, gives_every_member_the_same_floats_whatever_the_wire_does) {
  Rng rng(7);
  for (int round = 0; round < 100; ++round) {
    const auto members = static_cast<std::uint16_t>(2 + rng.below(3));
    const auto rotation = static_cast<std::uint32_t>(rng.below(5));
    Tree tree = Tree::of_slices(8);
    Group group(tree, scattered_plan(rng, 8, members), members, kLayout,
                random_slices(rng, 8, 10, false), rotation, forms_of(members, round % 2 == 0));
    group.compute_all();
    for (int turn = 0; turn < 200 && !group.all_committed(); ++turn) {
      group.run(rng, {.loss = 0.2, .doubling = 0.2, .shuffled = true, .shifted = true});
      group.tick(std::chrono::seconds(5));
    }
    ASSERT_TRUE(group.all_committed());
    for (std::uint16_t rank = 0; rank < members; ++rank) {
      EXPECT_TRUE(same_bits(*group[rank].result(), *group[0].result()));
      EXPECT_EQ(group[rank].result_digest(), group[0].result_digest());
      EXPECT_EQ(group[rank].dropped_messages(), 0u);
    }
    // Half a step for each of at most 8 partial sums and for the result.
    EXPECT_LE(worst_difference(*group[0].result(), group.expected()), 4.6f * kStep);
  }
}

TEST(WireForm, sends_its_own_number_of_bytes_and_the_same_ones_again) {
  Rng rng(1);
  Tree tree = Tree::of_slices(2);
  Group group(tree, balanced_plan(tree, 2), 2, kLayout, random_slices(rng, 2, 10, false), 0,
              forms_of(2, true));
  group.compute(0, {0, 0});
  ASSERT_EQ(group.wire.size(), 1u);  // of chunk 1; the others are its own
  const auto first = std::get<PartialChunk>(group.wire[0].send.message);
  EXPECT_EQ(first.payload.size(), 8u);
  group.wire.clear();
  group.deliver(1, 0, Need{{1}, {}, false});
  ASSERT_EQ(group.wire.size(), 1u);
  const auto again = std::get<PartialChunk>(group.wire[0].send.message);
  EXPECT_EQ(to_bytes(again.payload.view), to_bytes(first.payload.view));
}

TEST(WireForm, drops_a_payload_of_plain_floats) {
  Rng rng(1);
  Tree tree = Tree::of_slices(2);
  Group group(tree, balanced_plan(tree, 2), 2, kLayout, random_slices(rng, 2, 10, false), 0,
              forms_of(2, false));
  const DataFingerprint data_fingerprint = fed_of(tree, {0, 1});
  group.deliver(1, 0, PartialChunk{0, {0, 1}, data_fingerprint, floats({1, 2, 3, 4})});
  group.deliver(1, 0, ResultChunk{1, data_fingerprint, floats({1, 2, 3, 4})});
  EXPECT_EQ(group[0].dropped_messages(), 2u);
}

TEST(WireForm, is_not_used_by_a_lone_member) {
  Rng rng(1);
  Tree tree = Tree::of_slices(4);
  Group group(tree, balanced_plan(tree, 1), 1, kLayout, random_slices(rng, 4, 10, true), 0,
              forms_of(1, false));
  group.compute_all();
  ASSERT_TRUE(group.all_committed());
  EXPECT_TRUE(same_bits(*group[0].result(), group.expected()));
}

TEST(ErrorFeedback, makes_up_for_what_earlier_steps_lost) {
  Rng rng(3);
  Tree tree = Tree::of_slices(4);
  const auto slices = random_slices(rng, 4, 10, false);
  for (bool with : {false, true}) {
    const auto forms = forms_of(3, with);
    constexpr int kSteps = 200;
    std::vector<double> total(10);
    Values wanted;
    for (int step = 0; step < kSteps; ++step) {
      // Rank 2 has a slice in every other step only.
      const SlicePlan plan{step % 2 ? std::vector<std::uint16_t>{0, 0, 1, 1}
                                    : std::vector<std::uint16_t>{0, 1, 1, 2}};
      Group group(tree, plan, 3, kLayout, slices, 1, forms);
      group.compute_all();
      group.run(rng, {});
      ASSERT_TRUE(group.all_committed());
      wanted = group.expected();
      for (std::size_t i = 0; i < 10; ++i) total[i] += (*group[0].result())[i];
      for (auto& one : forms) one->on_commit();
    }
    double worst = 0;
    for (std::size_t i = 0; i < 10; ++i)
      worst = std::max(worst, std::abs(total[i] / kSteps - static_cast<double>(wanted[i])));
    if (with)
      EXPECT_LE(worst, 5 * kStep / kSteps);
    else
      EXPECT_GE(worst, kStep / 8);
  }
}

TEST(ErrorFeedback, of_a_step_that_was_not_committed_is_void) {
  ErrorFeedback feedback;
  feedback.on_begin(2);
  feedback.lost()[0] = 1;
  feedback.on_begin(2);
  EXPECT_EQ(feedback.lost()[0], 0.0f);
  feedback.lost()[1] = 2;
  feedback.on_commit();
  EXPECT_THAT(feedback.carried(), ::testing::ElementsAre(0.0f, 2.0f));
  feedback.forget();
  EXPECT_TRUE(feedback.carried().empty());
}

}  // namespace
}  // namespace gpunode::collective
