#include "actors/inference/model_figures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

Result<GenerateAnswer> answer(const char* finish) {
  GenerateAnswer made;
  made.tokens = 5;
  made.prompt_tokens = 7;
  made.finish = finish;
  made.seconds = 0.5;
  return made;
}

TEST(ModelFigures, OfTextsAreShownByOurNamesAndByThoseOfOthers) {
  telemetry::Registry registry;
  ModelFigures figures(registry, "small", ModelFigures::Kind::texts);
  figures.begun(250ms);
  figures.first_token(300ms);
  figures.next_token(50ms);
  figures.next_token(50ms);
  figures.pass();
  figures.looked_up(7, 4);
  figures.drafted(3, 2);
  figures.drafted(3, 0);
  figures.load(2, 3, 0.25);
  for (const char* finish : {"stop", "stop", "length", "deadline"}) figures.ended(answer(finish));
  figures.ended(Result<GenerateAnswer>(Error{ErrorCode::resource_exhausted, "too many"}));
  figures.ended(Result<GenerateAnswer>(Error{ErrorCode::cancelled, "gone"}));
  const std::string text = registry.prometheus_text();
  for (const char* line :
       {R"(gpunode_generated_tokens_total{model="small"} 20)",
        R"(gpunode_prompt_tokens_total{model="small"} 28)",
        R"(gpunode_first_token_seconds_count{model="small"} 1)",
        R"(gpunode_next_token_seconds_count{model="small"} 2)",
        R"(gpunode_generate_failures_total{model="small",reason="refused"} 1)",
        R"(nv_inference_request_success{model="small",version="1"} 4)",
        R"(nv_inference_request_failure{model="small",reason="REJECTED",version="1"} 1)",
        R"(nv_inference_request_failure{model="small",reason="CANCELED",version="1"} 1)",
        R"(nv_inference_request_failure{model="small",reason="BACKEND",version="1"} 0)",
        R"(nv_inference_exec_count{model="small",version="1"} 1)",
        R"(nv_inference_request_duration_us{model="small",version="1"} 2000000)",
        R"(nv_inference_queue_duration_us{model="small",version="1"} 250000)",
        R"(nv_inference_compute_infer_duration_us{model="small",version="1"} 1750000)",
        R"(nv_inference_pending_request_count{model="small",version="1"} 3)",
        R"(vllm:num_requests_running{engine="0",model_name="small"} 2)",
        R"(vllm:kv_cache_usage_perc{engine="0",model_name="small"} 0.25)",
        R"(vllm:prompt_tokens_total{engine="0",model_name="small"} 28)",
        R"(vllm:generation_tokens_total{engine="0",model_name="small"} 20)",
        R"(vllm:prefix_cache_queries_total{engine="0",model_name="small"} 7)",
        R"(vllm:prefix_cache_hits_total{engine="0",model_name="small"} 4)",
        R"(gpunode_draft_tokens_total{model="small"} 6)",
        R"(gpunode_draft_accepted_tokens_total{model="small"} 2)",
        R"(vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="small"} 6)",
        R"(vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="small"} 2)",
        R"(vllm:time_to_first_token_seconds_sum{engine="0",model_name="small"} 0.3)",
        R"(vllm:inter_token_latency_seconds_count{engine="0",model_name="small"} 2)",
        R"(vllm:e2e_request_latency_seconds_count{engine="0",model_name="small"} 4)",
        R"(vllm:request_success_total{engine="0",finished_reason="stop",model_name="small"} 2)",
        R"(vllm:request_success_total{engine="0",finished_reason="length",model_name="small"} 1)",
        R"(vllm:request_success_total{engine="0",finished_reason="abort",model_name="small"} 1)"})
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
}

TEST(ModelFigures, OfRowsAreTritonsAlone) {
  telemetry::Registry registry;
  ModelFigures figures(registry, "rows", ModelFigures::Kind::rows);
  InferAnswer made;
  made.outputs.push_back({.name = "class", .kind = TensorKind::int64, .shape = {4}});
  made.seconds = 0.25;
  figures.ended(Result<InferAnswer>(made));
  figures.ended(Result<InferAnswer>(Error{ErrorCode::device_lost, "gone"}));
  const std::string text = registry.prometheus_text();
  for (const char* line :
       {R"(gpunode_infer_rows_total{model="rows"} 4)",
        R"(nv_inference_count{model="rows",version="1"} 4)",
        R"(nv_inference_exec_count{model="rows",version="1"} 1)",
        R"(nv_inference_request_failure{model="rows",reason="BACKEND",version="1"} 1)",
        R"(nv_inference_compute_infer_duration_us{model="rows",version="1"} 250000)"})
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  EXPECT_THAT(text, Not(HasSubstr("vllm:")));
}

}  // namespace
}  // namespace gpunode::inference
