// `bench compute`: what this machine's devices reach on models, without a node.
#include <algorithm>
#include <thread>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cuda/cuda_backend.hpp"
#include "kernels/model/registry.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/compute_bench.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

struct Shape {
  const char *name, *kind;
  model::Settings settings;
  StepShape step;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {{"small", "gpt", {}, {.batch = 12, .slices = 4}},
                                         {"gpt2-124m",
                                          "gpt",
                                          {{"layers", "12"},
                                           {"heads", "12"},
                                           {"channels", "768"},
                                           {"context", "64"},
                                           {"vocabulary", "50257"}},
                                          {.batch = 4, .slices = 4}},
                                         {"resnet",
                                          "resnet",
                                          {{"height", "32"}, {"width", "32"}, {"channels", "3"}},
                                          {.batch = 8, .slices = 4}}};
  return all;
}

struct Options {
  std::string device, model;
  int threads = 1;
  std::chrono::milliseconds time{};  // of each measurement
};

Result<std::unique_ptr<ops::Backend>> open_device(const std::string& name) {
  if (name == "cpu") return cpu::open_backend();
  const auto ordinal = name == "cuda"              ? std::optional(0)
                       : name.starts_with("cuda:") ? parse_number<int>(name.substr(5), 0, 1023)
                                                   : std::nullopt;
  if (!ordinal)
    return Error{ErrorCode::invalid_argument,
                 "--device is cpu, cuda or cuda:N, not '" + name + "'"};
  auto gpu = cuda::open_backend(*ordinal);
  if (!gpu) return gpu.error().within("--device " + name);
  return gpu;
}

Result<Options> options_of(const Arguments& arguments) {
  Options options{.device = arguments.text("--device", "cpu"), .model = arguments.text("--model")};
  const auto cores = std::max(1u, std::thread::hardware_concurrency());
  auto threads = arguments.whole("--threads", cores, 1, 1024);
  if (!threads) return threads.error();
  options.threads = static_cast<int>(*threads);
  auto time = arguments.duration("--time", std::chrono::seconds(2));
  if (!time) return time.error();
  options.time = *time;
  const auto named = [&](const Shape& shape) { return shape.name == options.model; };
  if (!options.model.empty() && std::ranges::none_of(shapes(), named))
    return Error{ErrorCode::invalid_argument,
                 "--model is small, gpt2-124m or resnet, not '" + options.model + "'"};
  return options;
}

// Of the peak that bounds it: the larger share.
json rate_json(double seconds, double flops, double bytes, const Peaks& peaks) {
  const double arithmetic = flops / seconds / peaks.flops_per_second;
  const double memory = bytes / seconds / peaks.bytes_per_second;
  json out = {{"seconds", seconds}, {"share_of_peak", std::max(arithmetic, memory)}};
  if (flops > 0) out["flops_per_second"] = flops / seconds;
  if (bytes > 0) out["bytes_per_second"] = bytes / seconds;
  out["bound"] = arithmetic > memory ? "arithmetic" : "memory";
  return out;
}

Result<json> measure(const Shape& shape, ops::Backend& backend, const Options& options,
                     const Peaks& one, const Peaks& all) {
  auto made = model::make_model(shape.kind, shape.settings);
  if (!made) return made.error();
  const std::shared_ptr<const model::Model> model = std::move(*made);
  StepShape step = shape.step;
  step.threads = options.threads;
  auto operations = measure_operations(*model, backend, step.batch / step.slices, options.time);
  if (!operations) return operations.error().within(shape.name);
  auto rate = measure_step(model, backend, step, options.time);
  if (!rate) return rate.error().within(shape.name);
  json list = json::array();
  for (const OperationRate& operation : *operations) {
    json line = rate_json(operation.seconds, operation.flops, operation.bytes, one);
    line["operation"] = operation.operation;
    line["shapes"] = operation.shapes;
    line["calls"] = operation.calls;
    list.push_back(std::move(line));
  }
  json whole = rate_json(rate->seconds, rate->flops, 0, all);
  whole["model_flop_utilisation"] = whole["share_of_peak"];
  for (const char* key : {"share_of_peak", "bound"}) whole.erase(key);
  whole["tokens_per_second"] = rate->tokens / rate->seconds;
  return json{{"model", shape.name},      {"parameters", model->parameter_count()},
              {"batch", step.batch},      {"slices", step.slices},
              {"step", std::move(whole)}, {"operations", std::move(list)}};
}

json peaks_json(const Peaks& peaks, int threads) {
  return {{"threads", threads},
          {"flops_per_second", peaks.flops_per_second},
          {"bytes_per_second", peaks.bytes_per_second}};
}

std::string percent(const json& object, const char* key) {
  return decimal(100 * field<double>(object, key, 0), 1) + "%";
}
std::string giga(const json& object, const char* key) {
  return object.contains(key) ? decimal(field<double>(object, key, 0) / 1e9, 1) : "";
}

std::string text_of(const json& answer) {
  std::string out = word(answer, "device") + " (" + word(answer, "instruction_set") + ", " +
                    word(answer, "library") + ")\n";
  for (const json& peaks : list(answer, "peaks"))
    out += "peak of " + number(peaks, "threads") +
           " thread(s): " + giga(peaks, "flops_per_second") + " GFLOP/s, " +
           giga(peaks, "bytes_per_second") + " GB/s copied\n";
  for (const json& model : list(answer, "models")) {
    const json step = object(model, "step");
    out += "\n" + word(model, "model") + ", " + human_count(field<double>(model, "parameters", 0)) +
           " parameters, batch " + number(model, "batch") + " in " + number(model, "slices") +
           " slices: a step in " + decimal(1e3 * field<double>(step, "seconds", 0), 2) + " ms, " +
           human_count(field<double>(step, "tokens_per_second", 0)) + " tokens/s, " +
           giga(step, "flops_per_second") + " GFLOP/s, model FLOP utilisation " +
           percent(step, "model_flop_utilisation") + "\n";
    std::vector<std::vector<std::string>> rows = {
        {"OPERATION", "CALLS", "us", "GFLOP/s", "GB/s", "OF PEAK", "BOUND", "SHAPES"}};
    for (const json& one : list(model, "operations"))
      rows.push_back({word(one, "operation"), number(one, "calls"),
                      decimal(1e6 * field<double>(one, "seconds", 0), 1),
                      giga(one, "flops_per_second"), giga(one, "bytes_per_second"),
                      percent(one, "share_of_peak"), word(one, "bound"), word(one, "shapes")});
    out += aligned(rows);
  }
  return out;
}

}  // namespace

int run_bench_compute(const Invocation& invocation) {
  auto options = options_of(invocation.arguments);
  if (!options) return fail(invocation, options.error(), kUsage);
  auto backend = open_device(options->device);
  if (!backend)
    return fail(invocation, backend.error(),
                backend.error().code == ErrorCode::invalid_argument ? kUsage : kFailed);
  if (!(*backend)->capabilities().host_accessible) options->threads = 1;
  const auto one = measure_peaks(**backend, 1, options->time);
  if (!one) return fail(invocation, one.error());
  const auto all = measure_peaks(**backend, options->threads, options->time);
  if (!all) return fail(invocation, all.error());
  json answer = {{"device", (*backend)->device().name},
                 {"instruction_set", (*backend)->capabilities().instruction_set},
                 {"library", (*backend)->capabilities().library},
                 {"peaks", {peaks_json(*one, 1), peaks_json(*all, options->threads)}},
                 {"models", json::array()}};
  for (const Shape& shape : shapes()) {
    if (!options->model.empty() && shape.name != options->model) continue;
    if (!invocation.json()) std::fprintf(stderr, "gpunode: measuring %s\n", shape.name);
    auto measured = measure(shape, **backend, *options, *one, *all);
    if (!measured) return fail(invocation, measured.error());
    answer["models"].push_back(std::move(*measured));
  }
  if (invocation.json())
    print_json(std::move(answer));
  else
    print(text_of(answer));
  return kOk;
}

}  // namespace gpunode::cli
