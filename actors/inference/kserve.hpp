// KServe's v2 protocol over HTTP: bodies of its requests read strictly, and answers written, as JSON or with
// tensors in binary behind it. What is not known here is refused, never ignored. Pure.
// Source: KServe's Open Inference Protocol, version 2, with the binary extension, repository index and
// statistics as Triton has them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/inference/generate_codec.hpp"
#include "actors/inference/infer_codec.hpp"

namespace gpunode::inference::kserve {

struct WantedOutput {
  std::string name;
  bool binary = false;
};
struct InferCall {
  std::string id;
  std::vector<InferTensor> inputs;
  std::vector<WantedOutput> outputs;  // empty: all, and then:
  bool binary_outputs = false;
  // Of a text: with all that its parameters say; nothing of a call without the input "text_input".
  std::optional<GenerateRequest> text = {};
};
// `json_bytes`: of the header Inference-Header-Content-Length; nothing: the body is JSON alone. `random`:
// the seed of a text that names none. Fails with: invalid_argument, naming what is wrong; unsupported
// (a datatype).
Result<InferCall> read_infer(std::string_view body, std::optional<std::size_t> json_bytes,
                             std::uint64_t random);

struct Written {
  std::string body;
  std::optional<std::size_t> json_bytes = {};  // what the header says; nothing: JSON alone
};
// Fails with invalid_argument where an output is wanted that there is none of.
Result<Written> infer_answer(const std::string& model, const InferCall& call,
                             const InferAnswer& answer);
// A text as an answer of one tensor.
InferAnswer text_answer(const GenerateAnswer& text);

std::string server(std::string_view version);
std::string model(const std::string& name, const InferDescription& told);
// `why`: it is not; empty: it is.
std::string is_ready(const std::string& name, const std::string& why);
std::string index(const std::vector<std::string>& names);

// How a model's calls have fared at one front.
struct ModelCounts {
  std::uint64_t succeeded = 0, failed = 0;
  std::chrono::nanoseconds succeeded_time{}, failed_time{};
  std::uint64_t rows = 0;     // answered, or texts
  std::int64_t last_ms = 0;   // since 1970
  std::uint64_t version = 0;  // that answered last
};
std::string statistics(const std::string& name, const ModelCounts& counts);

int status_of(const Error& error);
std::string error_body(const Error& error);  // {"error": text}

}  // namespace gpunode::inference::kserve
