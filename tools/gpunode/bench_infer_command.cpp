// `bench infer`: how fast a served model answers, asked for all it can do and then at a share of that.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "runtime/base/harmless_text.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/http_asker.hpp"
#include "tools/gpunode/infer_asker.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using bench::AskedOnce;
using bench::LoadResult;
using nlohmann::json;

// At once in the second part; more wait, and their time counts. Fewer than the connections that a node
// takes from one address.
constexpr int kMostAskers = 128;

struct Options {
  InferPlan plan;
  std::optional<double> rate;
  double load = 0.7, seconds = 10;
  int askers = 16;
};

Result<double> load_of(const Arguments& arguments) {
  std::string text = arguments.text("--load", "70%");
  if (text.ends_with('%')) text.pop_back();
  const auto percent = parse_number(text, 0.1, 1000.0);
  if (percent) return *percent / 100;
  return Error{ErrorCode::invalid_argument,
               "--load wants a share such as 70%, not '" + arguments.text("--load") + "'"};
}

// Empty: none is named. Fails also with what reading a file fails with.
Result<std::string> key_in(const Arguments& arguments) {
  constexpr std::uint64_t kMostBytes = 4096;
  if (!arguments.has("--key-file")) return std::string();
  if (!arguments.has("--http"))
    return Error{ErrorCode::invalid_argument, "--key-file goes with --http"};
  storage::PosixFileSystem files;
  const auto text = files.read(arguments.text("--key-file"), kMostBytes);
  if (!text) return text.error().within("--key-file");
  std::string key(as_text(*text));
  key.erase(key.find_last_not_of(" \r\n") + 1);
  if (key.empty() || key.find_first_of(" \r\n") != std::string::npos)
    return Error{ErrorCode::invalid_argument, "--key-file holds no API key"};
  return key;
}

// Fails with invalid_argument.
Result<Options> options_of(const Arguments& arguments) {
  Options options;
  if (!arguments.has("--model"))
    return Error{ErrorCode::invalid_argument,
                 "--model NAME is missing; `gpunode models` lists what is served"};
  if (arguments.has("--load") && arguments.has("--rate"))
    return Error{ErrorCode::invalid_argument, "give --load or --rate, not both"};
  if (arguments.has("--http"))
    if (auto place = parse_http_url(arguments.text("--http")); !place) return place.error();
  const auto load = load_of(arguments);
  if (!load) return load.error();
  const auto rate = arguments.real("--rate", 1, 0.001, 1e6);
  if (!rate) return rate.error();
  const auto seconds = arguments.real("--seconds", 10, 0.1, 3600);
  if (!seconds) return seconds.error();
  const auto askers = arguments.whole("--askers", 16, 1, kMostAskers);
  if (!askers) return askers.error();
  const auto prompt = arguments.whole("--prompt-tokens", 32, 1, 65'536);
  if (!prompt) return prompt.error();
  const auto tokens = arguments.whole("--max-tokens", 32, 1, 65'536);
  if (!tokens) return tokens.error();
  const auto rows = arguments.whole("--rows", 1, 1, 4096);
  if (!rows) return rows.error();
  const auto seed = arguments.whole("--seed", 1, 0, UINT64_MAX);
  if (!seed) return seed.error();
  const auto timeout = arguments.duration("--timeout", std::chrono::seconds(30));
  if (!timeout) return timeout.error();
  if (timeout->count() < 1 || timeout->count() > 3'600'000)
    return Error{ErrorCode::invalid_argument, "--timeout is at least 1ms and at most 1h"};
  options.plan = {.model = arguments.text("--model"),
                  .timeout = *timeout,
                  .prompt_tokens = *prompt,
                  .max_tokens = *tokens,
                  .rows = *rows,
                  .seed = *seed,
                  .http = arguments.text("--http")};
  const auto key = key_in(arguments);
  if (!key) return key.error();
  options.plan.key = *key;
  if (arguments.has("--rate")) options.rate = *rate;
  options.load = *load;
  options.seconds = *seconds;
  options.askers = static_cast<int>(*askers);
  return options;
}

// Told on a terminal by one line that is written over.
class Progress {
 public:
  explicit Progress(bool as_json) : shown_(!as_json && isatty(STDERR_FILENO)) {}
  std::function<void(std::uint64_t)> of(const std::string& what) const {
    return [shown = shown_, what](std::uint64_t done) {
      if (shown)
        std::fprintf(stderr, "\r%s: %llu requests\033[K", what.c_str(),
                     static_cast<unsigned long long>(done));
    };
  }
  void end() const {
    if (shown_) std::fprintf(stderr, "\r\033[K");
  }

 private:
  const bool shown_;
};

json percentiles_of(const std::vector<double>& seconds) {
  return {{"p50", bench::percentile(seconds, 50)},
          {"p90", bench::percentile(seconds, 90)},
          {"p99", bench::percentile(seconds, 99)},
          {"max", bench::percentile(seconds, 100)}};
}

double sum_of(const LoadResult& result, std::uint64_t AskedOnce::*field) {
  double sum = 0;
  for (const AskedOnce& one : result.answered) sum += static_cast<double>(one.*field);
  return sum;
}

double tokens_per_second(const LoadResult& result) {
  return result.seconds > 0 ? sum_of(result, &AskedOnce::tokens) / result.seconds : 0;
}

json load_json(const LoadResult& result, bool rows) {
  std::vector<double> whole, first, token;
  double late = 0;
  for (const AskedOnce& one : result.answered) {
    whole.push_back(one.seconds);
    late = std::max(late, one.late_seconds);
    if (one.first_seconds <= 0) continue;
    first.push_back(one.first_seconds);
    if (one.tokens > 1)
      token.push_back((one.seconds - one.first_seconds) / static_cast<double>(one.tokens - 1));
  }
  const double count = std::max<double>(1, static_cast<double>(whole.size()));
  json told = {{"seconds", result.seconds},
               {"asked", result.asked()},
               {"answered", whole.size()},
               {"requests_per_second", result.answered_per_second()},
               {"tokens_per_second", tokens_per_second(result)},
               {"prompt_tokens", sum_of(result, &AskedOnce::prompt_tokens) / count},
               {"tokens", sum_of(result, &AskedOnce::tokens) / count},
               {"late", late},
               {"answer", percentiles_of(whole)}};
  if (!rows) {
    told["first"] = percentiles_of(first);
    told["token"] = percentiles_of(token);
  }
  const double p50 = bench::percentile(whole, 50);
  told["p99_by_p50"] = p50 > 0 ? bench::percentile(whole, 99) / p50 : 0;
  return told;
}

Result<json> measure(const Options& options, InferAsker& asker, const Progress& progress) {
  const bench::Ask ask = [&](std::uint64_t number) { return asker.ask(number); };
  json answer = {{"model", options.plan.model},
                 {"kind", asker.asks_rows() ? "rows" : "texts"},
                 {"askers", options.askers}};
  if (!options.plan.http.empty()) answer["http"] = options.plan.http;
  std::map<std::string, std::uint64_t> failed;
  double rate = options.rate.value_or(0);
  std::uint64_t asked = 0;
  if (!options.rate) {
    const LoadResult full = bench::run_load({.seconds = options.seconds,
                                             .askers = options.askers,
                                             .on_second = progress.of("all that it can do")},
                                            ask);
    failed = full.failed;
    asked = full.asked();
    if (full.answered.empty()) {
      progress.end();
      return Error{ErrorCode::unavailable, "the model answered none of " + std::to_string(asked) +
                                               " requests: " + full.failed.begin()->first};
    }
    answer["full"] = {{"seconds", full.seconds},
                      {"answered", full.answered.size()},
                      {"requests_per_second", full.answered_per_second()},
                      {"tokens_per_second", tokens_per_second(full)}};
    rate = options.load * full.answered_per_second();
  }
  const LoadResult load =
      bench::run_load({.due = bench::arrivals(rate, options.seconds, options.plan.seed),
                       .askers = kMostAskers,
                       .first_number = asked,
                       .on_second = progress.of(decimal(rate, 2) + " requests a second by chance")},
                      ask);
  progress.end();
  answer["load"] = load_json(load, asker.asks_rows());
  answer["load"]["rate"] = rate;
  if (!options.rate) answer["load"]["of_full"] = options.load;
  for (const auto& [kind, count] : load.failed) failed[kind] += count;
  answer["failed"] = json::array();
  for (const auto& [kind, count] : failed)
    answer["failed"].push_back({{"kind", kind}, {"count", count}});
  return answer;
}

std::string per_second(const json& part, const std::string& what) {
  return decimal(field<double>(part, "requests_per_second", 0), 1) + " requests/s, " +
         decimal(field<double>(part, "tokens_per_second", 0), 1) + " " + what + "/s";
}

std::string text_of(const json& answer) {
  const bool rows = word(answer, "kind") == "rows";
  const std::string what = rows ? "rows" : "tokens";
  std::string text;
  if (const json full = object(answer, "full"); !full.empty())
    text += "full   " + per_second(full, what) + ", asked by " + number(answer, "askers") +
            " in turn for " + decimal(field<double>(full, "seconds", 0), 1) + " s\n";
  const json load = object(answer, "load");
  text +=
      "load   " + per_second(load, what) + ", where " + decimal(field<double>(load, "rate", 0), 1) +
      " requests/s were due" +
      (load.contains("of_full") ? " (" + decimal(100 * field<double>(load, "of_full", 0), 1) + " %)"
                                : "") +
      "; " + number(load, "answered") + " of " + number(load, "asked") + " answered\n";
  text += rows ? "       " + decimal(field<double>(load, "tokens", 0), 1) + " rows a request\n"
               : "       " + decimal(field<double>(load, "prompt_tokens", 0), 1) +
                     " tokens read and " + decimal(field<double>(load, "tokens", 0), 1) +
                     " generated for a text\n";
  std::vector<std::vector<std::string>> table = {{"TIME", "P50", "P90", "P99", "MAX"}};
  for (const auto& [key, name] : {std::pair{"answer", "to the answer"},
                                  {"first", "to the first piece"},
                                  {"token", "a token after it"}}) {
    const json times = object(load, key);
    if (times.empty()) continue;
    std::vector<std::string> row = {name};
    for (const char* one : {"p50", "p90", "p99", "max"})
      row.push_back(fine_duration(field<double>(times, one, 0)));
    table.push_back(std::move(row));
  }
  text += aligned(table);
  text += "p99 is " + decimal(field<double>(load, "p99_by_p50", 0), 2) +
          " of p50; the latest was asked " + fine_duration(field<double>(load, "late", 0)) +
          " after it was due\n";
  for (const json& one : list(answer, "failed"))
    text += "failed " + number(one, "count") + " requests: " + word(one, "kind") + "\n";
  return text;
}

}  // namespace

int run_bench_infer(const Invocation& invocation) {
  const auto options = options_of(invocation.arguments);
  if (!options) return fail(invocation, options.error(), kUsage);
  const auto asker = InferAsker::open(invocation, options->plan);
  if (!asker) {
    const bool no_node = options->plan.http.empty() && asker.error().code == ErrorCode::unavailable;
    return fail(invocation, asker.error(), no_node ? kNoNode : kFailed);
  }
  const auto answer = measure(*options, **asker, Progress(invocation.json()));
  if (!answer) return fail(invocation, answer.error(), kFailed);
  if (invocation.json())
    print_json(*answer);
  else
    print(text_of(*answer));
  return kOk;
}

}  // namespace gpunode::cli
