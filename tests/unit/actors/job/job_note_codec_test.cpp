#include "actors/job/job_note_codec.hpp"

#include <gtest/gtest.h>

#include "tests/support/damaged_bytes.hpp"

namespace gpunode::jobs {
namespace {

TEST(JobNoteCodec, carries_fitness_and_hints_and_survives_damage) {
  Fitness fitness{Bytes(32, std::byte{1}), 10, 9, "f", "cpu", "0.1.0", "m", 5, 6, 7};
  auto back = decode_note(encode(JobNote(fitness)));
  ASSERT_TRUE(back);
  EXPECT_EQ(std::get<Fitness>(*back).data_digest, fitness.data_digest);
  EXPECT_EQ(std::get<Fitness>(*back).version, "0.1.0");
  EXPECT_EQ(std::get<Fitness>(*back).model_digest, "m");
  EXPECT_EQ(std::get<Fitness>(*back).memory_needed_bytes, 5u);
  EXPECT_EQ(std::get<Fitness>(*back).memory_available_bytes, 6u);
  EXPECT_EQ(std::get<Fitness>(*back).site, 7u);
  JobHint hint;
  hint.name = "job";
  hint.phase = JobPhase::running;
  hint.labels = {"gpu"};
  hint.wanted = 3;
  auto again = decode_note(encode(JobNote(hint)));
  ASSERT_TRUE(again);
  EXPECT_EQ(std::get<JobHint>(*again).labels, hint.labels);
  EXPECT_EQ(std::get<JobHint>(*again).wanted, 3u);
  expect_robust(encode(JobNote(hint)),
                [](const Bytes& bytes) { return decode_note(bytes).has_value(); });
}

TEST(JobNoteCodec, carries_jobs_in_the_queue_and_when_a_job_was_submitted) {
  NodeId one, two;
  one.value[0] = std::byte{1};
  two.value[0] = std::byte{2};
  QueueNote note{{1, 2}, {{3, one}, {2, two}, Bytes(90, std::byte{9})}, {one, two}};
  auto back = decode_note(encode(JobNote(note)));
  ASSERT_TRUE(back);
  const auto& told = std::get<QueueNote>(*back);
  EXPECT_EQ(told.job, note.job);
  EXPECT_EQ(told.vote.promised, note.vote.promised);
  EXPECT_EQ(told.vote.accepted, note.vote.accepted);
  EXPECT_EQ(told.vote.manifest, note.vote.manifest);
  EXPECT_EQ(told.holders, note.holders);
  expect_robust(encode(JobNote(note)),
                [](const Bytes& bytes) { return decode_note(bytes).has_value(); });
  note.holders.assign(kMostHolders + 1, one);
  EXPECT_FALSE(decode_note(encode(JobNote(note))));
  JobHint hint;
  hint.submitted = 5;
  hint.submitter = two;
  hint.waited_as = "00";
  auto again = decode_note(encode(JobNote(hint)));
  ASSERT_TRUE(again);
  EXPECT_EQ(std::get<JobHint>(*again).submitted, 5);
  EXPECT_EQ(std::get<JobHint>(*again).submitter, two);
  EXPECT_EQ(std::get<JobHint>(*again).waited_as, "00");
}

TEST(JobNoteCodec, carries_refusals_bounded_in_number_and_length_and_survives_damage) {
  NodeId node;
  node.value[3] = std::byte{7};
  JobRefusals refusals{{1, 2}, {{node, "its data differs"}}};
  auto back = decode_note(encode(JobNote(refusals)));
  ASSERT_TRUE(back);
  const auto& told = std::get<JobRefusals>(*back);
  EXPECT_EQ(told.job, (JobId{1, 2}));
  ASSERT_EQ(told.refused.size(), 1u);
  EXPECT_EQ(told.refused[0].node, node);
  EXPECT_EQ(told.refused[0].reason, "its data differs");
  expect_robust(encode(JobNote(refusals)),
                [](const Bytes& bytes) { return decode_note(bytes).has_value(); });
  refusals.refused.assign(1000, {node, std::string(5000, 'x')});
  auto cut = decode_note(encode(JobNote(refusals)));
  ASSERT_TRUE(cut) << cut.error().message();
  EXPECT_EQ(std::get<JobRefusals>(*cut).refused.size(), 32u);
}

}  // namespace
}  // namespace gpunode::jobs
