// What a model that is served here tells of its work: gpunode's own series, each looked up once, and those
// that dashboards made for Triton (nv_inference_*) and vLLM (vllm:*) know, which read the same instruments.
// A model's thread tells; recording is a few relaxed atomic operations. Lives as long as the registry.
// tools/METRICS.md lists them.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "actors/inference/generate_codec.hpp"
#include "actors/inference/infer_codec.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/telemetry/registry.hpp"

namespace gpunode::inference {

class ModelFigures {
 public:
  // Of a model of texts, of one that answers rows or vectors, or of one that does both.
  enum class Kind { texts, rows };
  ModelFigures(telemetry::Registry& registry, const std::string& model, Kind kind);

  // A text was read for the first time, so long after it came; its first token came, so long after; and
  // each next one, so long after the one before.
  void begun(Duration waited) { waited_->record(seconds_of(waited)); }
  void first_token(Duration after) { first_token_->record(seconds_of(after)); }
  void next_token(Duration after) { next_token_->record(seconds_of(after)); }
  void pass() { passes_->add(); }
  // Of a prompt, so many tokens were looked for in the cache, and so many were there.
  void looked_up(std::size_t tokens, std::size_t known) {
    looked_up_->add(tokens);
    known_->add(known);
  }
  // Of so many tokens that the draft (text_draft.hpp) proposed, so many were what the model chose.
  void drafted(std::size_t guessed, std::size_t right) {
    drafted_->add(guessed);
    accepted_->add(right);
  }
  void load(std::size_t under_way, std::size_t waiting, double cache_used);
  void ended(const Result<GenerateAnswer>& answer);
  void ended(const Result<InferAnswer>& answer);

 private:
  static constexpr std::array<const char*, 4> kFinishes = {"stop", "length", "deadline", "other"};
  static constexpr std::array<const char*, 4> kFailures = {"refused", "cancelled", "device",
                                                           "other"};
  static double seconds_of(Duration time) { return std::chrono::duration<double>(time).count(); }
  static std::size_t failure_of(const Error& error);
  void open_texts(telemetry::Registry& registry, const telemetry::Labels& labels);
  void open_failures(telemetry::Registry& registry, const std::string& model, const char* name,
                     const char* help);
  void show_as_triton(telemetry::Registry& registry, const std::string& model) const;
  void show_as_vllm(telemetry::Registry& registry, const std::string& model) const;

  const Kind kind_;
  telemetry::Histogram *answered_ = nullptr, *waited_ = nullptr, *first_token_ = nullptr,
                       *next_token_ = nullptr;
  telemetry::Counter *tokens_ = nullptr, *prompt_tokens_ = nullptr, *rows_ = nullptr,
                     *passes_ = nullptr, *looked_up_ = nullptr, *known_ = nullptr,
                     *drafted_ = nullptr, *accepted_ = nullptr;
  telemetry::Gauge *under_way_ = nullptr, *waiting_ = nullptr, *cache_used_ = nullptr;
  std::array<telemetry::Counter*, kFinishes.size()> finished_{};
  std::array<telemetry::Counter*, kFailures.size()> failed_{};
};

}  // namespace gpunode::inference
