// `bench compute`: what this machine reaches of its own peaks, operation by operation.
#include <algorithm>
#include <cctype>
#include <memory>
#include <thread>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cuda/cuda_backend.hpp"
#include "kernels/model/registry.hpp"
#include "tools/bench/compute_rate.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

struct Subject {
  const char* name;
  const char* kind;
  model::Settings settings;
  std::size_t samples;  // a slice
};

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = {{"small-gpt", "gpt", {}, 3},
                                           {"gpt2-124m",
                                            "gpt",
                                            {{"layers", "12"},
                                             {"heads", "12"},
                                             {"channels", "768"},
                                             {"context", "1024"},
                                             {"vocabulary", "50257"}},
                                            1},
                                           {"resnet18",
                                            "resnet",
                                            {{"height", "224"},
                                             {"width", "224"},
                                             {"channels", "3"},
                                             {"classes", "1000"},
                                             {"groups", "4"},
                                             {"blocks", "2"},
                                             {"filters", "64"},
                                             {"stem", "7"}},
                                            4}};
  return all;
}

std::string known_names() {
  std::string names;
  for (const Subject& subject : subjects())
    names += (names.empty() ? "" : ", ") + std::string(subject.name);
  return names;
}

Result<std::vector<Subject>> chosen_subjects(const Arguments& arguments) {
  const auto wanted = arguments.all("--model");
  std::vector<Subject> chosen;
  if (wanted.empty()) chosen = subjects();
  for (const std::string& name : wanted) {
    const auto found = std::ranges::find(subjects(), name, &Subject::name);
    if (found == subjects().end())
      return {ErrorCode::invalid_argument,
              "--model wants one of " + known_names() + ", not '" + name + "'"};
    chosen.push_back(*found);
  }
  for (Subject& subject : chosen) {
    const auto samples = arguments.whole("--samples", subject.samples, 1, 4096);
    if (!samples) return samples.error();
    subject.samples = *samples;
  }
  return chosen;
}

bool is_operation(const std::string& name) {
  if (name == "slice") return true;
  for (std::size_t op = 0; op < static_cast<std::size_t>(graph::Op::count); ++op)
    if (graph::row_of(static_cast<graph::Op>(op)).name == name) return true;
  return false;
}

Result<bench::ComputeOptions> options_of(const Arguments& arguments, bool on_cpu) {
  bench::ComputeOptions options;
  const auto cores = std::max<std::uint64_t>(1, std::thread::hardware_concurrency());
  const auto threads = arguments.whole("--threads", on_cpu ? cores : 1, 1, on_cpu ? 1024 : 1);
  if (!threads) return threads.error();
  options.threads = static_cast<int>(*threads);
  const auto seconds = arguments.real("--seconds", 0.1, 0, 3600);
  if (!seconds) return seconds.error();
  options.seconds = *seconds;
  options.filter = arguments.text("--filter");
  const auto precision = parse_precision(arguments.text("--precision", "fp32"));
  if (!precision) return precision.error().within("--precision");
  options.precision = *precision;
  for (std::string rest = arguments.text("--ops"); !rest.empty();) {
    const std::string name = rest.substr(0, rest.find(','));
    rest.erase(0, name.size() + 1);
    if (!is_operation(name))
      return {ErrorCode::invalid_argument,
              "--ops: there is no operation '" + name +
                  "'; kernels/graph names them, and 'slice' is a whole one"};
    options.ops.push_back(name);
  }
  return options;
}

Result<std::unique_ptr<ops::Backend>> open_device(const std::string& name) {
  if (name == "cpu") return cpu::open_backend();
  if (name == "cuda") return cuda::open_backend(0);
  if (name.starts_with("cuda:"))
    if (const auto ordinal = parse_number(std::string_view(name).substr(5), 0, 1023))
      return cuda::open_backend(*ordinal);
  return {ErrorCode::invalid_argument, "--device wants cpu, cuda or cuda:N, not '" + name + "'"};
}

// One line: of one call, its rate on all threads, and what share of the peaks that is.
json line_of(const bench::CallRate& rate, const bench::Peaks& peaks) {
  return {{"op", rate.op},
          {"dtype", rate.dtype},
          {"shapes", rate.shapes},
          {"calls", rate.calls},
          {"flops", rate.cost.flops},
          {"bytes", rate.cost.bytes},
          {"seconds", rate.seconds},
          {"flops_per_second", rate.flops_per_second},
          {"bytes_per_second", rate.bytes_per_second},
          {"of_peak_flops", rate.flops_per_second / peaks.flops_per_second},
          {"of_copy_bandwidth", rate.bytes_per_second / peaks.copy_bytes_per_second}};
}

json lines_of(const std::vector<bench::CallRate>& rates, const bench::Peaks& peaks) {
  auto lines = json::array();
  for (const bench::CallRate& rate : rates) lines.push_back(line_of(rate, peaks));
  return lines;
}

Result<json> measure(const Arguments& arguments) {
  const std::string device = arguments.text("--device", "cpu");
  const auto options = options_of(arguments, device == "cpu");
  if (!options) return options.error();
  const auto chosen = chosen_subjects(arguments);
  if (!chosen) return chosen.error();
  auto backend = open_device(device);
  if (!backend) return backend.error();
  auto peaks = bench::measure_peaks(**backend, *options);
  if (!peaks) return peaks.error();
  std::vector<bench::ModelRates> measured;
  bool any = false;
  for (const Subject& subject : *chosen) {
    const auto model = model::make_model(subject.kind, subject.settings);
    if (!model) return model.error();
    if (auto used = (*model)->use_precision(options->precision); !used) return used.error();
    const auto& graph_model = dynamic_cast<const model::GraphModel&>(**model);
    auto rates =
        bench::measure_model(subject.name, graph_model, subject.samples, **backend, *options);
    if (!rates) return rates.error().within(subject.name);
    measured.push_back(*std::move(rates));
    any = any || !measured.back().calls.empty() || !measured.back().slice.empty();
  }
  if (!any)
    return Error{
        ErrorCode::not_found,
        "no operation of these models is named so: without --ops and --filter all are shown"};
  // Once more, as a machine that others use too is slower at one moment than at another.
  const auto again = bench::measure_peaks(**backend, *options);
  if (!again) return again.error();
  peaks->raise_to(*again);
  json answer = {{"device", device},
                 {"name", (*backend)->device().name},
                 {"instruction_set", (*backend)->capabilities().instruction_set},
                 {"library", (*backend)->capabilities().library},
                 {"threads", options->threads},
                 {"precision", std::string(to_string(options->precision))},
                 {"peak_flops_per_second", peaks->flops_per_second},
                 {"peak_product", peaks->product},
                 {"copy_bytes_per_second", peaks->copy_bytes_per_second},
                 {"models", json::array()}};
  for (std::size_t at = 0; at < measured.size(); ++at)
    answer["models"].push_back({{"model", (*chosen)[at].name},
                                {"samples", (*chosen)[at].samples},
                                {"operations", lines_of(measured[at].calls, *peaks)},
                                {"slice", lines_of(measured[at].slice, *peaks)}});
  return answer;
}

// "284.8 GFLOP/s"
std::string flops_text(double rate) {
  std::string text = human_count(rate);
  const bool scaled = !text.empty() && std::isalpha(static_cast<unsigned char>(text.back()));
  text.insert(text.size() - (scaled ? 1 : 0), " ");
  return text + "FLOP/s";
}

std::string percent(const json& line, const char* key) {
  return decimal(100 * field<double>(line, key, 0), 1) + " %";
}

std::vector<std::string> row_of(const json& line) {
  const double flops = field<double>(line, "flops_per_second", 0);
  return {word(line, "op"),
          word(line, "dtype"),
          word(line, "shapes"),
          number(line, "calls"),
          fine_duration(field<double>(line, "seconds", 0)),
          flops_text(flops),
          percent(line, "of_peak_flops"),
          human_bytes(field<double>(line, "bytes_per_second", 0)) + "/s",
          percent(line, "of_copy_bandwidth")};
}

std::string table_of(const json& answer) {
  std::string text = word(answer, "device") + ": " + word(answer, "name") + ", " +
                     word(answer, "instruction_set") + ", " + word(answer, "library") + "; " +
                     number(answer, "threads") + " threads, a slice each\n";
  text += "peak   " + flops_text(field<double>(answer, "peak_flops_per_second", 0)) +
          " (product of " + word(answer, "peak_product") + ")\n";
  text += "copy   " + human_bytes(field<double>(answer, "copy_bytes_per_second", 0)) +
          "/s read and written\n";
  for (const json& model : list(answer, "models")) {
    std::vector<std::vector<std::string>> rows = {{"OPERATION", "TYPE", "OPERANDS", "CALLS", "TIME",
                                                   "ARITHMETIC", "OF PEAK", "MEMORY", "OF COPY"}};
    for (const char* part : {"operations", "slice"})
      for (const json& line : list(model, part)) rows.push_back(row_of(line));
    if (rows.size() == 1) continue;
    text += "\n" + word(model, "model") + ", slices of " + number(model, "samples") +
            (field<int>(model, "samples", 0) == 1 ? " sample\n" : " samples\n");
    text += aligned(rows);
  }
  return text;
}

}  // namespace

int run_bench_compute(const Invocation& invocation) {
  const auto answer = measure(invocation.arguments);
  if (!answer) {
    const bool usage = answer.error().code == ErrorCode::invalid_argument;
    return fail(invocation, answer.error(), usage ? kUsage : kFailed);
  }
  if (invocation.json())
    print_json(*answer);
  else
    print(table_of(*answer));
  return kOk;
}

}  // namespace gpunode::cli
