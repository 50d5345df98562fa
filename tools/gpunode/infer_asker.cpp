#include "tools/gpunode/infer_asker.hpp"

#include <algorithm>
#include <mutex>

#include "runtime/base/rng.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/http_asker.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using bench::AskedOnce;
using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kGrace = std::chrono::seconds(5);  // for an answer that tells of the timeout

constexpr std::uint64_t kWarmUp = 1'000'000'000;  // from here on, the asks before those that count

double seconds_since(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

// The node of the state directory, by `generate`: a text with it, or rows as lines.
class NativeAsker final : public InferAsker {
 public:
  NativeAsker(const Invocation& invocation, const InferPlan& plan)
      : InferAsker(plan), invocation_(invocation) {
    invocation_.arguments.add("--json", "");  // nothing is told meanwhile
  }

  Result<json> describe() override {
    auto answer = ask_node(invocation_, "model.describe", {{"model", plan_.model}}, plan_.timeout);
    if (!answer) return *answer.error;
    return answer.body;
  }

  Result<AskedOnce> ask(std::uint64_t number) override {
    json order = {{"model", plan_.model},
                  {"prompt", asks_rows() ? lines(number) : prompt(number)},
                  {"timeout_ms", plan_.timeout.count()}};
    if (!asks_rows()) {
      order["max_tokens"] = plan_.max_tokens;
      order["seed"] = number;
      order["tell_first"] = true;
    }
    const auto begin = SteadyClock::now();
    const Answer answer = ask_node(invocation_, "generate", order, plan_.timeout + kGrace);
    AskedOnce told{.seconds = seconds_since(begin)};
    if (!answer) return *answer.error;
    if (field<std::string>(answer.body, "finish", "") == "deadline")
      return {ErrorCode::timeout, "the answer was cut by its deadline"};
    told.tokens = field<std::uint64_t>(answer.body, "tokens", 0);
    told.prompt_tokens = field<std::uint64_t>(answer.body, "prompt_tokens", 0);
    if (answer.body.contains("after_first_seconds"))
      told.first_seconds = told.seconds - field<double>(answer.body, "after_first_seconds", 0);
    return told;
  }

 private:
  std::string lines(std::uint64_t number) const {
    std::string text;
    for (std::uint64_t i = 0; i < plan_.rows; ++i) {
      for (const float value : row(number * plan_.rows + i))
        text += (text.empty() || text.back() == '\n' ? "" : ",") + std::to_string(value);
      text += '\n';
    }
    return text;
  }

  Invocation invocation_;
};

ErrorCode code_of(int status) {
  switch (status) {
    case 404:
      return ErrorCode::not_found;
    case 401:
    case 403:
      return ErrorCode::permission_denied;
    case 429:
      return ErrorCode::resource_exhausted;
    case 408:
    case 504:
      return ErrorCode::timeout;
    case 503:
      return ErrorCode::unavailable;
    case 501:
      return ErrorCode::unsupported;
    default:
      return status < 500 ? ErrorCode::invalid_argument : ErrorCode::internal;
  }
}

// The last event of a stream that has the key, or null.
json last_event(const std::string& body, const char* key) {
  json last;
  constexpr std::string_view kBegin = "data: ";
  for (std::size_t at = 0; (at = body.find(kBegin, at)) != std::string::npos;) {
    at += kBegin.size();
    json event = json::parse(body.substr(at, body.find('\n', at) - at), nullptr, false);
    if (event.is_object() && event.contains(key) && event[key].is_object())
      last = std::move(event[key]);
  }
  return last;
}

class OverHttp final : public InferAsker {
 public:
  OverHttp(HttpPlace place, const InferPlan& plan) : InferAsker(plan), place_(std::move(place)) {}

  Result<json> describe() override {
    auto answer = exchange("/v2/models/" + plan_.model, "", {});
    if (!answer) return answer.error();
    json told = json::parse(answer->body, nullptr, false);
    if (told.is_object()) return told;
    return Error{ErrorCode::corrupted, "the service does not tell of its models as KServe does"};
  }

  Result<AskedOnce> ask(std::uint64_t number) override {
    return asks_rows() ? ask_rows(number) : ask_text(number);
  }

 private:
  Result<AskedOnce> ask_rows(std::uint64_t number) {
    std::vector<float> numbers;
    for (std::uint64_t i = 0; i < plan_.rows; ++i)
      std::ranges::copy(row(number * plan_.rows + i), std::back_inserter(numbers));
    const json body = {{"inputs",
                        {{{"name", "features"},
                          {"datatype", "FP32"},
                          {"shape", {plan_.rows, features_}},
                          {"data", numbers}}}}};
    const std::string text = body.dump();
    const auto begin = SteadyClock::now();
    const auto answer = exchange("/v2/models/" + plan_.model + "/infer", text, {});
    if (!answer) return answer.error();
    return AskedOnce{.seconds = seconds_since(begin), .tokens = plan_.rows};
  }

  Result<AskedOnce> ask_text(std::uint64_t number) {
    const json body = {{"model", plan_.model},
                       {"prompt", prompt(number)},
                       {"max_tokens", plan_.max_tokens},
                       {"seed", number},
                       {"stream", true},
                       {"stream_options", {{"include_usage", true}}}};
    const std::string text = body.dump();
    AskedOnce told;
    const auto begin = SteadyClock::now();
    const auto answer = exchange("/v1/completions", text, [&](std::string_view) {
      if (told.first_seconds == 0) told.first_seconds = seconds_since(begin);
    });
    told.seconds = seconds_since(begin);
    if (!answer) return answer.error();
    if (const json error = last_event(answer->body, "error"); error.is_object()) {
      const auto code = field<std::string>(error, "code", "");
      return {code == "timeout" ? ErrorCode::timeout : ErrorCode::internal,
              field<std::string>(error, "message", "the text was not ended")};
    }
    const json usage = last_event(answer->body, "usage");
    told.tokens = field<std::uint64_t>(usage, "completion_tokens", 0);
    told.prompt_tokens = field<std::uint64_t>(usage, "prompt_tokens", 0);
    return told;
  }

  // By a connection that nobody uses now.
  Result<HttpAsker::Answer> exchange(const std::string& path, const std::string& body,
                                     const std::function<void(std::string_view)>& on_data) {
    std::unique_ptr<HttpAsker> asker;
    if (std::lock_guard lock(mutex_); !free_.empty()) {
      asker = std::move(free_.back());
      free_.pop_back();
    }
    if (!asker) asker = std::make_unique<HttpAsker>(place_, plan_.timeout, plan_.key);
    auto answer = asker->ask(path, body, on_data);
    {
      std::lock_guard lock(mutex_);
      free_.push_back(std::move(asker));
    }
    if (!answer || answer->status == 200) return answer;
    const json told = json::parse(answer->body, nullptr, false);
    std::string why = "status " + std::to_string(answer->status);
    if (told.is_object() && told.contains("error"))
      why = told["error"].is_string() ? told["error"].get<std::string>()
                                      : field<std::string>(told["error"], "message", why);
    return Error{code_of(answer->status), why};
  }

  const HttpPlace place_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<HttpAsker>> free_;
};

}  // namespace

Result<std::unique_ptr<InferAsker>> InferAsker::open(const Invocation& invocation,
                                                     const InferPlan& plan) {
  std::unique_ptr<InferAsker> asker;
  if (plan.http.empty()) {
    asker = std::make_unique<NativeAsker>(invocation, plan);
  } else {
    auto place = parse_http_url(plan.http);
    if (!place) return place.error();
    asker = std::make_unique<OverHttp>(*std::move(place), plan);
  }
  if (auto done = asker->learn(); !done) return done.error();
  return asker;
}

Result<void> InferAsker::learn() {
  const auto told = describe();
  if (!told) return told.error();
  const auto platform = field<std::string>(*told, "platform", "");
  if (platform == "gpunode_classifier") {
    const json inputs = list(*told, "inputs");
    const auto shape = inputs.empty() ? std::vector<std::int64_t>{}
                                      : field<std::vector<std::int64_t>>(inputs[0], "shape", {});
    if (shape.size() != 2 || shape[1] < 1)
      return {ErrorCode::unsupported, "the model does not tell how many numbers a row has"};
    features_ = static_cast<std::size_t>(shape[1]);
  } else if (platform != "gpunode_text") {
    return {ErrorCode::unsupported,
            "the model is a " + platform + ", and what is measured here are texts and rows"};
  }
  // The first one also warms up. A prompt has as many characters as make so many tokens.
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto first = ask(kWarmUp + static_cast<std::uint64_t>(attempt));
    if (!first) return first.error();
    if (first->prompt_tokens == 0 || first->prompt_tokens == plan_.prompt_tokens) break;
    characters_ = std::clamp<std::uint64_t>(
        characters_ * plan_.prompt_tokens / first->prompt_tokens, 1, 8 * plan_.prompt_tokens);
  }
  return {};
}

std::string InferAsker::prompt(std::uint64_t number) const {
  Rng random(mix(plan_.seed, number));
  std::string text;
  for (std::uint64_t i = 0; i < characters_; ++i)
    text.push_back(random.below(6) == 0 ? ' ' : static_cast<char>('a' + random.below(26)));
  return text;
}

std::vector<float> InferAsker::row(std::uint64_t number) const {
  Rng random(mix(plan_.seed, number));
  std::vector<float> values(features_);
  for (float& value : values) value = static_cast<float>(2 * random.uniform() - 1);
  return values;
}

}  // namespace gpunode::cli
