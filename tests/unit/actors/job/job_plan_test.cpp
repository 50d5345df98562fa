#include "actors/job/job_plan.hpp"

#include <gtest/gtest.h>

#include "tests/support/ids.hpp"

namespace gpunode::jobs {
namespace {

std::string name(const NodeId& id) {
  return "n" + std::to_string(std::to_integer<int>(id.value[0]));
}

FitNode fit(int number, int data = 7) {
  Fitness fitness{Bytes(32, static_cast<std::byte>(data)), 100, 80, "f", "cpu", "0.1.0", "m"};
  fitness.memory_needed_bytes = 1000;
  return {node(number), fitness};
}

JobPlan plan_of(job::JobSpec spec, std::vector<FitNode> nodes, std::vector<Refusal> refused = {}) {
  const ModelFigures model{"gpt", 1000, 16, 4000, 12000};
  JobPlan plan{model, std::nullopt, false, nodes, choose(spec, nodes, refused, node(1))};
  if (auto enough = choose_candidates(spec, nodes, refused, node(1), name); !enough)
    plan.refusal = enough.error();
  return plan;
}

job::JobSpec spec(std::uint32_t nodes, std::uint32_t slices) {
  job::JobSpec spec;
  spec.name = "tiny";
  spec.nodes = nodes;
  spec.min_nodes = nodes;
  spec.data.path = "/data";
  spec.train.slices = slices;
  spec.train.batch = 8;
  spec.train.steps = 20;
  return spec;
}

TEST(JobPlan, tells_what_each_member_computes_and_sends) {
  const auto told = plan_json(plan_of(spec(2, 4), {fit(1), fit(2), fit(3)}), name);
  EXPECT_EQ(told["starts"], true);
  ASSERT_EQ(told["nodes"].size(), 3u);
  for (int at : {0, 1}) {
    EXPECT_EQ(told["nodes"][at]["takes_part"], true);
    EXPECT_EQ(told["nodes"][at]["slices"], 2);
    EXPECT_EQ(told["nodes"][at]["sent_bytes"], 4000) << "half a partial sum, half a result";
    EXPECT_EQ(told["nodes"][at]["received_bytes"], 4000);
    EXPECT_EQ(told["nodes"][at]["memory_needed_bytes"], 1000);
    EXPECT_FALSE(told["nodes"][at].contains("memory_available_bytes")) << "not known";
  }
  EXPECT_EQ(told["nodes"][2]["node"], "n3");
  EXPECT_EQ(told["nodes"][2]["reason"], "it is fit, and not needed: the job wants 2 nodes");
  EXPECT_EQ(told["tokens_per_step"], 8 * 16);
  EXPECT_EQ(told["epochs"], 2.0);
  EXPECT_EQ(told["checkpoint_bytes"], 12000);
}

TEST(JobPlan, of_a_job_that_cannot_start_tells_why_in_the_words_of_train) {
  const auto told =
      plan_json(plan_of(spec(3, 4), {fit(1), fit(2, 8)}, {{node(3), "no such file"}}), name);
  EXPECT_EQ(told["starts"], false);
  EXPECT_EQ(told["nodes_taking_part"], 1);
  EXPECT_EQ(told["refusal"]["code"], "invalid_argument");
  const auto detail = told["refusal"]["detail"].get<std::string>();
  EXPECT_NE(detail.find("at least 3 nodes, 1 can take part; n3: no such file; n2: its data"),
            std::string::npos)
      << detail;
  EXPECT_EQ(told["nodes"].size(), 3u);
}

TEST(JobPlan, sums_inside_a_site_before_they_go_to_another) {
  job::JobSpec apart = spec(4, 4);
  apart.exchange.mode = job::ExchangeMode::hierarchical;
  std::vector<FitNode> nodes = {fit(1), fit(2), fit(3), fit(4)};
  nodes[0].fitness.site = nodes[1].fitness.site = 5;
  nodes[2].fitness.site = nodes[3].fitness.site = 6;
  double grouped = 0, direct = 0;
  const auto by_sites = plan_json(plan_of(apart, nodes), name);
  const auto exact = plan_json(plan_of(spec(4, 4), nodes), name);
  for (int at = 0; at < 4; ++at) {
    grouped += by_sites["nodes"][at]["sent_bytes"].get<double>();
    direct += exact["nodes"][at]["sent_bytes"].get<double>();
  }
  EXPECT_EQ(direct, 4 * 1.5 * 4000);
  EXPECT_LE(grouped, direct);
}

TEST(JobPlan, of_local_rounds_counts_their_inner_steps_and_of_no_data_no_samples) {
  job::JobSpec local = spec(1, 4);
  local.exchange.mode = job::ExchangeMode::local;
  local.exchange.inner_steps = 50;
  EXPECT_EQ(plan_json(plan_of(local, {fit(1)}), name)["samples_per_step"], 400);
  const auto none = plan_json(plan_of(spec(1, 4), {}, {{node(1), "no such file"}}), name);
  EXPECT_FALSE(none.contains("data_samples"));
  EXPECT_EQ(none["nodes_taking_part"], 0);
}

TEST(JobPlan, remarks_on_what_nobody_is_likely_to_want) {
  job::JobSpec odd = spec(3, 2);
  odd.train.warmup_steps = 21;
  odd.train.learning_rate = odd.train.min_learning_rate / 2;
  const auto remarks = plan_json(plan_of(odd, {fit(1), fit(2), fit(3)}), name)["remarks"];
  ASSERT_EQ(remarks.size(), 3u) << remarks;
  const char* words[] = {"more than the 20 steps", "below train.min_learning_rate",
                         "less than the 3 nodes"};
  for (int at : {0, 1, 2})
    EXPECT_NE(remarks[at].get<std::string>().find(words[at]), std::string::npos) << remarks[at];
  odd = spec(2, 4);
  odd.train.warmup_steps = 20;
  EXPECT_TRUE(plan_json(plan_of(odd, {fit(1), fit(2)}), name)["remarks"].empty());
}

}  // namespace
}  // namespace gpunode::jobs
