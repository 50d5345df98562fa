// Requests to continue a text, pieces of it on the way, and their answers, to and from bytes
// (schemas/generate.fbs).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/inference/token_report.hpp"
#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::inference {

inline constexpr std::size_t kLongestStopBytes = 1024;

inline constexpr std::size_t kLongestClient = 64;
inline constexpr std::size_t kLongestTextBytes =
    1 << 20;  // of a prompt; the mesh takes no longer one

struct GenerateRequest {
  std::string prompt;
  std::uint32_t max_tokens = 128;  // to 65536; 0: as many as the model reads beside the prompt
  double temperature = 1.0;        // 0: always the most probable token
  std::uint32_t top_k = 0;         // 0: all
  double top_p = 1, min_p = 0;     // 0 to 1; token_sampler.hpp has these and the penalties
  double presence_penalty = 0, frequency_penalty = 0;  // -2 to 2
  double repetition_penalty = 1;                       // above 0, to 100
  std::vector<std::string> stop = {};  // the text ends before the first of these; 16, of 1 kB each
  std::uint64_t seed = 1;
  std::uint32_t timeout_ms = 30'000;
  std::uint64_t stream = 0;    // not 0: pieces are wanted, under this number
  std::uint32_t priority = 0;  // where texts wait, higher ones go first; 0 to 100
  bool whole_prompt = false;   // one longer than the model reads is refused; else its end is read
  std::string chat = {};       // not empty: stands for the prompt (chat_form.hpp)
  std::vector<std::int32_t> prompt_tokens = {};  // not empty: stand for the prompt as they are
  bool echo = false;                             // the text begins with the prompt
  std::string form = {};    // not empty: what the text is to be (runtime/grammar/grammar.hpp)
  std::string client = {};  // of the node that asks; kLongestClient
  std::optional<std::uint32_t> likely =
      {};  // a report of each token, with so many likely ones; to 20
};
struct GenerateAnswer {
  std::string text;
  std::uint32_t tokens = 0;
  std::string finish;  // "length"; "stop" at the text's own end; "deadline" where it was cut by it
  std::string model_digest;  // of the model's content
  std::uint64_t step = 0;
  double seconds = 0;
  std::uint32_t prompt_tokens = 0;
  std::vector<TokenReport> reports = {};  // where they were asked for
  std::uint64_t version = 0;              // of the model under its name
};
struct GeneratePiece {
  std::uint64_t stream = 0;
  std::uint64_t offset = 0;  // bytes of the text before it
  std::string text;
  std::uint64_t first_report = 0;  // tokens before it
  std::vector<TokenReport> reports = {};
};
using GenerateMessage = std::variant<GenerateRequest, GenerateAnswer, GeneratePiece>;

Bytes encode(const GenerateMessage& message);
// Fails with corrupted, or invalid_argument for a field out of range; never throws.
Result<GenerateMessage> decode_generate(ByteView bytes);

}  // namespace gpunode::inference
