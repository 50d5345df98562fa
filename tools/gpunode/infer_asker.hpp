// Who asks a served model over and over for `bench infer`: by the node's own `generate`, or over HTTP by
// OpenAI's streamed completions and KServe's infer. Asks may run beside each other.
#pragma once

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

#include "tools/bench/load_run.hpp"
#include "tools/gpunode/command.hpp"

namespace gpunode::cli {

struct InferPlan {
  std::string model;
  std::chrono::milliseconds timeout{};  // of an ask
  std::uint64_t prompt_tokens = 32, max_tokens = 32;
  std::uint64_t rows = 1;  // of a request, where the model reads rows
  std::uint64_t seed = 1;  // of what is asked
  std::string http = {};   // empty: native calls
  std::string key = {};    // of the API there; empty: none is wanted
};

class InferAsker {
 public:
  // Learns what the model reads. Fails with: invalid_argument (the URL), not_found (nobody serves it),
  // unsupported (it reads neither texts nor rows), unavailable (no node runs, nobody listens).
  static Result<std::unique_ptr<InferAsker>> open(const Invocation& invocation,
                                                  const InferPlan& plan);
  virtual ~InferAsker() = default;
  // As run_load() calls it; what it answers tells of this ask alone.
  virtual Result<bench::AskedOnce> ask(std::uint64_t number) = 0;
  bool asks_rows() const { return features_ > 0; }

 protected:
  explicit InferAsker(const InferPlan& plan) : plan_(plan), characters_(plan.prompt_tokens) {}
  virtual Result<nlohmann::json> describe() = 0;
  Result<void> learn();  // what the model reads, and how long a prompt must be
  std::string prompt(std::uint64_t number) const;
  // A row of numbers between -1 and 1.
  std::vector<float> row(std::uint64_t number) const;

  const InferPlan plan_;
  std::size_t features_ = 0;  // of a row; 0: it reads texts
  std::uint64_t characters_;  // of a prompt
};

}  // namespace gpunode::cli
