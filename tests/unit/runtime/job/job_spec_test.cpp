#include "runtime/job/job_spec.hpp"

#include "runtime/job/exchange_mode.hpp"
#include "runtime/storage/strong_digest.hpp"

#include <gtest/gtest.h>

namespace gpunode::job {
namespace {

JobSpec sample_spec() {
  JobSpec spec;
  spec.name = "shakespeare";
  spec.nodes = 3;
  spec.data.path = "/tmp/text";
  spec.train.learning_rate = 0.0012345678901234567;
  spec.train.slices = 12;
  spec.train.tree = {3, 2, 2};
  spec.model_settings = {{"layers", "4"}, {"heads", "4"}};
  spec.labels = {"gpu", "eu"};
  spec.data_digest = Bytes(32, std::byte{7});
  NodeId node;
  node.value[3] = std::byte{9};
  spec.candidates = {node, NodeId{}};
  spec.fingerprint = "00ff";
  spec.fingerprint_text = "avx512 onednn 2.6.3";
  spec.version = "0.1.0";
  spec.model_digest = "77aa";
  return spec;
}

TEST(JobSpec, survives_the_way_through_its_manifest_bit_for_bit) {
  JobSpec spec = sample_spec();
  Bytes manifest = encode(spec);
  auto again = decode(manifest);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(encode(*again), manifest);
  EXPECT_EQ(again->train.learning_rate, spec.train.learning_rate);
  EXPECT_EQ(again->candidates, spec.candidates);
  EXPECT_EQ(again->train.tree, spec.train.tree);
  EXPECT_EQ(again->labels, spec.labels);
  EXPECT_EQ(again->fingerprint, spec.fingerprint);
  EXPECT_EQ(again->fingerprint_text, spec.fingerprint_text);
  EXPECT_EQ(again->version, spec.version);
  EXPECT_EQ(again->model_digest, spec.model_digest);
}

TEST(JobSpec, another_seed_is_another_job) {
  JobSpec spec = sample_spec();
  JobId first = job_id(encode(spec));
  spec.train.seed = 2;
  EXPECT_NE(job_id(encode(spec)), first);
}

// Who submits writes the manifest: with a weaker hash it could have two for one id.
TEST(JobSpec, a_jobs_id_is_a_strong_digest_of_its_manifest) {
  const Bytes manifest = encode(sample_spec());
  EXPECT_EQ(job_id(manifest), storage::strong_digest_of(manifest));
}

TEST(JobSpec, an_unknown_key_names_the_nearest_known_one) {
  JobSpec spec;
  auto done = set(spec, "train.stpes", "10");
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().detail.find("train.steps"), std::string::npos) << done.error().detail;
}

TEST(JobSpec, a_value_of_the_wrong_shape_says_what_it_wants) {
  JobSpec spec;
  for (const char* value : {"", "ten", "-1", "1.5", "1 "}) {
    auto done = set(spec, "train.steps", value);
    ASSERT_FALSE(done) << value;
    EXPECT_NE(done.error().detail.find("whole number"), std::string::npos);
  }
}

TEST(JobSpec, a_tree_that_does_not_fit_the_slices_is_refused) {
  JobSpec spec = sample_spec();
  spec.train.tree = {2, 2};
  EXPECT_FALSE(validate(spec));
  spec.train.tree = {};
  EXPECT_TRUE(validate(spec));
  spec.train.batch = 4;
  EXPECT_FALSE(validate(spec)) << "12 slices of 4 samples";
}

TEST(JobSpec, numbers_that_would_leave_the_arithmetic_of_a_job_are_refused_by_their_key) {
  const std::vector<std::pair<std::string, std::string>> far = {
      {"train.batch", "4294967295"},
      {"train.batch", "16777217"},
      {"train.steps", "0"},
      {"train.steps", "1000000000001"},
      {"train.steps", "18446744073709551615"},
      {"train.learning_rate", "1e39"},
      {"train.weight_decay", "1e39"},
      {"train.clip", "inf"},
      {"train.epsilon", "0"},
      {"train.epsilon", "-1e-8"},
      {"train.epsilon", "1e-60"},
      {"train.epsilon", "nan"}};
  for (const auto& [key, value] : far) {
    JobSpec spec = sample_spec();
    ASSERT_TRUE(set(spec, key, value));
    auto valid = validate(spec);
    ASSERT_FALSE(valid) << key << " = " << value;
    EXPECT_NE(valid.error().detail.find(key), std::string::npos) << valid.error().detail;
  }
  JobSpec spec = sample_spec();
  ASSERT_TRUE(set(spec, "train.batch", "16777216"));
  ASSERT_TRUE(set(spec, "train.steps", "1000000000000"));
  EXPECT_TRUE(validate(spec));
  ASSERT_TRUE(set(spec, "exchange.inner_steps", "100000"));
  EXPECT_TRUE(validate(spec)) << "only mode local has inner steps";
  ASSERT_TRUE(set(spec, "exchange.mode", "local"));
  EXPECT_FALSE(validate(spec));
  ASSERT_TRUE(set(spec, "train.steps", "10000000"));
  EXPECT_TRUE(validate(spec));
}

TEST(JobSpec, a_name_that_a_command_would_take_for_a_flag_or_a_path_is_refused) {
  for (const char* name : {".", "..", "-h", ".hidden", ""}) {
    JobSpec spec = sample_spec();
    spec.name = name;
    EXPECT_FALSE(validate(spec)) << name;
  }
  JobSpec spec = sample_spec();
  spec.name = "run-2.b_3";
  EXPECT_TRUE(validate(spec));
}

TEST(JobSpec, NamesAnUnknownExchangeModeAndWhatThereIs) {
  JobSpec spec = sample_spec();
  for (const char* mode : {"exact", "ring", "hierarchical", "bf16", "int8", "topk", "local"}) {
    ASSERT_TRUE(set(spec, "exchange.mode", mode));
    EXPECT_TRUE(validate(spec)) << mode;
    EXPECT_EQ(facts_of(spec.exchange.mode).name, std::string(mode));
    EXPECT_EQ(decode(encode(spec))->exchange.mode, spec.exchange.mode);
  }
  for (const char* mode : {"rings", "gossip", "int4"}) {
    auto done = set(spec, "exchange.mode", mode);
    ASSERT_FALSE(done) << mode;
    EXPECT_NE(done.error().message().find(mode), std::string::npos);
    EXPECT_NE(done.error().message().find("exact, ring, hierarchical, bf16, int8, topk, local"),
              std::string::npos);
  }
  ASSERT_TRUE(set(spec, "exchange.mode", "topk"));
  ASSERT_TRUE(set(spec, "exchange.density", "0"));
  EXPECT_FALSE(validate(spec));
}

TEST(JobSpec, ModesThatAreNotExactSaySoAndHierarchicalIsExact) {
  EXPECT_NE(inexact_note(ExchangeMode::ring).find("not exact"), std::string::npos);
  EXPECT_EQ(inexact_note(ExchangeMode::hierarchical), "");
  EXPECT_EQ(inexact_note(ExchangeMode::exact), "");
}

TEST(JobSpec, CountsTheInnerStepsOfALocalRound) {
  JobSpec spec = sample_spec();
  EXPECT_EQ(spec.inner_steps(), 1u);
  ASSERT_TRUE(set(spec, "exchange.mode", "local"));
  ASSERT_TRUE(set(spec, "exchange.inner_steps", "20"));
  EXPECT_TRUE(validate(spec));
  EXPECT_EQ(spec.inner_steps(), 20u);
  for (auto [key, value] :
       std::vector<std::pair<const char*, const char*>>{{"exchange.inner_steps", "0"},
                                                        {"exchange.form", "local"},
                                                        {"exchange.form", "ring"},
                                                        {"exchange.group_by", ""},
                                                        {"exchange.group_by", "rack=1"},
                                                        {"exchange.outer_rate", "0"},
                                                        {"exchange.outer_momentum", "1"},
                                                        {"exchange.rounds_ahead", "2"}}) {
    JobSpec bad = spec;
    ASSERT_TRUE(set(bad, key, value));
    EXPECT_FALSE(validate(bad)) << key;
  }
}

TEST(JobSpec, no_truncation_or_flipped_bit_of_a_manifest_does_harm) {
  Bytes manifest = encode(sample_spec());
  for (std::size_t size = 0; size < manifest.size(); ++size) {
    auto spec = decode(ByteView(manifest).first(size));
    // Only the padding behind the last value may be missing.
    if (spec) {
      EXPECT_EQ(encode(*spec), manifest) << size;
    }
  }
  for (std::size_t bit = 0; bit < manifest.size() * 8; ++bit) {
    Bytes flipped = manifest;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    auto spec = decode(flipped);
    if (spec) {
      EXPECT_TRUE(validate(*spec));
    }
  }
}

}  // namespace
}  // namespace gpunode::job
