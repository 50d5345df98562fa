#include "actors/inference/model_figures.hpp"

#include <algorithm>
#include <cmath>

namespace gpunode::inference {
namespace {

using Shown = telemetry::Registry::Shown;

double microseconds(double seconds) {
  return std::round(seconds * 1e6);
}

}  // namespace

ModelFigures::ModelFigures(telemetry::Registry& registry, const std::string& model, Kind kind)
    : kind_(kind) {
  const telemetry::Labels labels{{"model", model}};
  if (kind == Kind::texts) {
    open_texts(registry, labels);
    open_failures(registry, model, "gpunode_generate_failures_total", "Requests that failed here");
    show_as_vllm(registry, model);
  } else {
    rows_ = &registry.counter("gpunode_infer_rows_total", "Rows answered here", labels);
    answered_ = &registry.histogram("gpunode_infer_seconds", "Time of an answer to rows", labels);
    open_failures(registry, model, "gpunode_infer_failures_total",
                  "Requests with rows that failed here");
  }
  show_as_triton(registry, model);
}

void ModelFigures::open_texts(telemetry::Registry& registry, const telemetry::Labels& labels) {
  tokens_ = &registry.counter("gpunode_generated_tokens_total", "Tokens generated here", labels);
  prompt_tokens_ = &registry.counter("gpunode_prompt_tokens_total",
                                     "Tokens of prompts that were answered here", labels);
  answered_ = &registry.histogram("gpunode_generate_seconds", "Time of a generated text", labels);
  waited_ = &registry.histogram("gpunode_generate_wait_seconds",
                                "Until a text is begun, from when it came", labels);
  first_token_ = &registry.histogram("gpunode_first_token_seconds",
                                     "Until a text's first token, from when it came", labels);
  next_token_ =
      &registry.histogram("gpunode_next_token_seconds", "Between two tokens of a text", labels);
  passes_ = &registry.counter("gpunode_model_passes_total", "Passes over texts together", labels);
  looked_up_ = &registry.counter("gpunode_prefix_cache_tokens_total",
                                 "Tokens of prompts looked for in the cache", labels);
  known_ = &registry.counter("gpunode_prefix_cache_known_tokens_total",
                             "Those of them that were there", labels);
  drafted_ =
      &registry.counter("gpunode_draft_tokens_total", "Tokens that the draft proposed", labels);
  accepted_ = &registry.counter("gpunode_draft_accepted_tokens_total",
                                "Those of them that were what the model chose", labels);
  under_way_ =
      &registry.gauge("gpunode_texts_under_way", "Texts that are continued together", labels);
  waiting_ = &registry.gauge("gpunode_texts_waiting", "Texts that are not begun yet", labels);
  cache_used_ = &registry.gauge("gpunode_cache_used_ratio",
                                "Of the key/value cache, held by texts under way", labels);
  for (std::size_t i = 0; i < kFinishes.size(); ++i) {
    telemetry::Labels with = labels;
    with["finish"] = kFinishes[i];
    finished_[i] = &registry.counter("gpunode_texts_finished_total",
                                     "Texts that were answered here, by how they ended", with);
  }
}

void ModelFigures::open_failures(telemetry::Registry& registry, const std::string& model,
                                 const char* name, const char* help) {
  for (std::size_t i = 0; i < kFailures.size(); ++i)
    failed_[i] = &registry.counter(name, help, {{"model", model}, {"reason", kFailures[i]}});
}

// Series go on where a new version takes the place of an old one.
constexpr const char* kAllVersions = "1";

// Names, units and labels: Triton Inference Server, docs/user_guide/metrics.md.
void ModelFigures::show_as_triton(telemetry::Registry& registry, const std::string& model) const {
  const telemetry::Labels labels{{"model", model}, {"version", kAllVersions}};
  const auto counter = [&](const char* name, const char* help, std::function<double()> read) {
    registry.also(name, help, labels, Shown::counter, std::move(read));
  };
  const telemetry::Histogram *answered = answered_, *waited = waited_;
  const telemetry::Counter *rows = rows_, *passes = passes_;
  const auto done = [answered] { return static_cast<double>(answered->count()); };
  counter("nv_inference_request_success", "Requests that were answered", done);
  counter(
      "nv_inference_count", "Inferences, a row or a text each",
      rows ? std::function<double()>([rows] { return static_cast<double>(rows->value()); }) : done);
  counter("nv_inference_exec_count", "Passes of the model, over several texts together",
          passes
              ? std::function<double()>([passes] { return static_cast<double>(passes->value()); })
              : done);
  counter("nv_inference_request_duration_us", "Of answered requests, microseconds",
          [answered] { return microseconds(answered->sum()); });
  counter("nv_inference_compute_infer_duration_us", "Of these, without the wait, microseconds",
          [answered, waited] {
            return microseconds(std::max(0.0, answered->sum() - (waited ? waited->sum() : 0.0)));
          });
  if (waited)
    counter("nv_inference_queue_duration_us", "Until requests were begun, microseconds",
            [waited] { return microseconds(waited->sum()); });
  if (waiting_)
    registry.also("nv_inference_pending_request_count", "Requests that are not begun yet", labels,
                  Shown::gauge, [waiting = waiting_] { return waiting->value(); });
  constexpr std::array<const char*, kFailures.size()> kReasons = {"REJECTED", "CANCELED", "BACKEND",
                                                                  "OTHER"};
  for (std::size_t i = 0; i < kReasons.size(); ++i) {
    telemetry::Labels with = labels;
    with["reason"] = kReasons[i];
    registry.also("nv_inference_request_failure", "Requests that failed", with, Shown::counter,
                  [failed = failed_[i]] { return static_cast<double>(failed->value()); });
  }
}

// Names and labels: vLLM, docs/usage/metrics.md; with the time a token under its older name too.
void ModelFigures::show_as_vllm(telemetry::Registry& registry, const std::string& model) const {
  const telemetry::Labels labels{{"engine", "0"}, {"model_name", model}};
  const auto counter = [&](const char* name, const char* help, const telemetry::Counter* own) {
    registry.also(name, help, labels, Shown::counter,
                  [own] { return static_cast<double>(own->value()); });
  };
  const auto gauge = [&](const char* name, const char* help, const telemetry::Gauge* own) {
    registry.also(name, help, labels, Shown::gauge, [own] { return own->value(); });
  };
  gauge("vllm:num_requests_running", "Texts that are continued together", under_way_);
  gauge("vllm:num_requests_waiting", "Texts that are not begun yet", waiting_);
  gauge("vllm:kv_cache_usage_perc", "Of the key/value cache, 0 to 1", cache_used_);
  counter("vllm:prompt_tokens_total", "Tokens of prompts that were answered", prompt_tokens_);
  counter("vllm:generation_tokens_total", "Tokens generated", tokens_);
  counter("vllm:prefix_cache_queries_total", "Tokens looked for in the cache", looked_up_);
  counter("vllm:prefix_cache_hits_total", "Tokens that were there", known_);
  counter("vllm:spec_decode_num_draft_tokens_total", "Tokens that a draft proposed", drafted_);
  counter("vllm:spec_decode_num_accepted_tokens_total", "Tokens of those that were right",
          accepted_);
  registry.also("vllm:time_to_first_token_seconds", "Until the first token", labels, *first_token_);
  registry.also("vllm:inter_token_latency_seconds", "Between two tokens", labels, *next_token_);
  registry.also("vllm:time_per_output_token_seconds", "Between two tokens", labels, *next_token_);
  registry.also("vllm:e2e_request_latency_seconds", "Of a whole text", labels, *answered_);
  registry.also("vllm:request_queue_time_seconds", "Until a text is begun", labels, *waited_);
  constexpr std::array<const char*, 3> kReasons = {"stop", "length", "abort"};
  for (const char* reason : kReasons) {
    telemetry::Labels with = labels;
    with["finished_reason"] = reason;
    std::vector<const telemetry::Counter*> of;
    for (std::size_t i = 0; i < kFinishes.size(); ++i)
      if (std::string_view(reason) == (i < 2 ? kFinishes[i] : "abort")) of.push_back(finished_[i]);
    registry.also("vllm:request_success_total", "Texts that were answered, by how they ended", with,
                  Shown::counter, [of] {
                    std::uint64_t all = 0;
                    for (const telemetry::Counter* one : of) all += one->value();
                    return static_cast<double>(all);
                  });
  }
}

std::size_t ModelFigures::failure_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::resource_exhausted:
    case ErrorCode::timeout:
      return 0;
    case ErrorCode::cancelled:
      return 1;
    case ErrorCode::device_lost:
    case ErrorCode::internal:
    case ErrorCode::out_of_memory:
      return 2;
    default:
      return 3;
  }
}

void ModelFigures::load(std::size_t under_way, std::size_t waiting, double cache_used) {
  if (!under_way_) return;  // of rows nobody waits so
  under_way_->set(static_cast<double>(under_way));
  waiting_->set(static_cast<double>(waiting));
  cache_used_->set(cache_used);
}

void ModelFigures::ended(const Result<GenerateAnswer>& answer) {
  if (!answer) return failed_[failure_of(answer.error())]->add();
  if (kind_ == Kind::rows) {  // lines of a table as a text
    rows_->add(answer->tokens);
    return answered_->record(answer->seconds);
  }
  tokens_->add(answer->tokens);
  prompt_tokens_->add(answer->prompt_tokens);
  answered_->record(answer->seconds);
  const auto known = std::ranges::find(kFinishes, answer->finish) - kFinishes.begin();
  finished_[std::min<std::size_t>(static_cast<std::size_t>(known), kFinishes.size() - 1)]->add();
}

void ModelFigures::ended(const Result<InferAnswer>& answer) {
  if (!answer) return failed_[failure_of(answer.error())]->add();
  if (kind_ == Kind::texts) return;  // such a model answers no rows
  rows_->add(static_cast<std::uint64_t>(answer->outputs.front().shape.front()));
  answered_->record(answer->seconds);
}

}  // namespace gpunode::inference
