// `generate`: text of a served model. The text alone goes to standard output.
#include <cstdio>
#include <iostream>
#include <iterator>

#include "runtime/storage/posix_file_system.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

constexpr std::uint64_t kLongestPromptBytes = 1 << 20;

Result<std::string> read_prompt(const Arguments& arguments) {
  if (!arguments.has("--prompt-file")) return arguments.text("--prompt", "\n");
  if (arguments.has("--prompt"))
    return Error{ErrorCode::invalid_argument, "give --prompt or --prompt-file, not both"};
  std::string file = arguments.text("--prompt-file");
  if (file == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  storage::PosixFileSystem files;
  auto text = files.read(file, kLongestPromptBytes);
  if (!text) return text.error().within("prompt file");
  return std::string(as_text(*text));
}

Result<nlohmann::json> request_of(const Arguments& arguments) {
  auto tokens = arguments.whole("--max-tokens", 128, 1, 65'536);
  if (!tokens) return tokens.error();
  auto temperature = arguments.real("--temperature", 1.0, 0.0, 100.0);
  if (!temperature) return temperature.error();
  auto top_k = arguments.whole("--top-k", 0, 0, 1'000'000);
  if (!top_k) return top_k.error();
  auto top_p = arguments.real("--top-p", 1.0, 0.0, 1.0);
  if (!top_p) return top_p.error();
  auto min_p = arguments.real("--min-p", 0.0, 0.0, 1.0);
  if (!min_p) return min_p.error();
  auto repetition = arguments.real("--repetition-penalty", 1.0, 0.01, 100.0);
  if (!repetition) return repetition.error();
  auto seed = arguments.whole("--seed", 1, 0, UINT64_MAX);
  if (!seed) return seed.error();
  auto priority = arguments.whole("--priority", 0, 0, 100);
  if (!priority) return priority.error();
  auto timeout = arguments.duration("--timeout", std::chrono::seconds(30));
  if (!timeout) return timeout.error();
  if (timeout->count() < 1 || timeout->count() > 3'600'000)
    return Error{ErrorCode::invalid_argument, "--timeout is at least 1ms and at most 1h"};
  return nlohmann::json{{"model", arguments.text("--model")},
                        {"max_tokens", *tokens},
                        {"temperature", *temperature},
                        {"top_k", *top_k},
                        {"top_p", *top_p},
                        {"min_p", *min_p},
                        {"repetition_penalty", *repetition},
                        {"stop", arguments.all("--stop")},
                        {"seed", *seed},
                        {"timeout_ms", timeout->count()},
                        {"priority", *priority}};
}

}  // namespace

int run_generate(const Invocation& invocation) {
  if (!invocation.arguments.has("--model"))
    return fail(invocation,
                {ErrorCode::invalid_argument,
                 "--model NAME is missing; `gpunode models` lists what is served"},
                kUsage);
  auto request = request_of(invocation.arguments);
  if (!request) return fail(invocation, request.error(), kUsage);
  auto prompt = read_prompt(invocation.arguments);
  if (!prompt) {
    bool usage = prompt.error().code == ErrorCode::invalid_argument;
    return fail(invocation, prompt.error(), usage ? kUsage : kFailed);
  }
  (*request)["prompt"] = *prompt;
  std::chrono::milliseconds timeout(field<std::int64_t>(*request, "timeout_ms", 0));
  Answer answer = ask_node(invocation, "generate", *request, timeout + std::chrono::seconds(5));
  const bool said =
      invocation.arguments.has("--prompt") || invocation.arguments.has("--prompt-file");
  if (!answer && !said && answer.error->code == ErrorCode::invalid_argument)
    answer.exit_code = kUsage;  // the model wants rows
  const int told = tell_lines(invocation, answer, "text");
  if (!answer || invocation.json()) return told;
  const nlohmann::json body = harmless_answer(answer.body);
  std::fprintf(stderr, "model %s, digest %s, step %s; %s tokens in %s, ended by %s\n",
               word(body, "model").c_str(), word(body, "digest").c_str(),
               number(body, "step").c_str(), number(body, "tokens").c_str(),
               human_duration(field<double>(body, "seconds", -1)).c_str(),
               word(body, "finish").c_str());
  return told;
}

}  // namespace gpunode::cli
