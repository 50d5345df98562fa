#include "actors/inference/kserve.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "actors/inference/http_status.hpp"

namespace gpunode::inference::kserve {
namespace {

std::string dumped(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const char* name_of(TensorKind kind) {
  return kind == TensorKind::fp32 ? "FP32" : kind == TensorKind::int64 ? "INT64" : "BYTES";
}

template <class Number>
Number number_at(ByteView bytes, std::size_t at) {
  Number value{};
  std::memcpy(&value, bytes.data() + at * sizeof value, sizeof value);
  return value;
}

// Of a tensor that is whole.
nlohmann::json values_of(const InferTensor& tensor) {
  auto values = nlohmann::json::array();
  const ByteView bytes = tensor.data;
  if (tensor.kind == TensorKind::fp32)
    for (std::size_t at = 0; at < bytes.size() / 4; ++at)
      values.push_back(number_at<float>(bytes, at));
  if (tensor.kind == TensorKind::int64)
    for (std::size_t at = 0; at < bytes.size() / 8; ++at)
      values.push_back(number_at<std::int64_t>(bytes, at));
  if (tensor.kind == TensorKind::bytes)
    for (std::size_t at = 0; at < bytes.size();) {
      const auto size = number_at<std::uint32_t>(bytes.subspan(at), 0);
      values.push_back(std::string(as_text(bytes.subspan(at + 4, size))));
      at += 4 + size;
    }
  return values;
}

nlohmann::json forms_of(const std::vector<TensorForm>& forms) {
  auto all = nlohmann::json::array();
  for (const TensorForm& one : forms)
    all.push_back({{"name", one.name}, {"datatype", name_of(one.kind)}, {"shape", one.shape}});
  return all;
}

nlohmann::json duration_of(std::uint64_t count, std::chrono::nanoseconds time) {
  return {{"count", count}, {"ns", time.count()}};
}

bool is_wanted(const InferCall& call, const std::string& output) {
  return call.outputs.empty() ||
         std::ranges::find(call.outputs, output, &WantedOutput::name) != call.outputs.end();
}

bool is_binary(const InferCall& call, const std::string& output) {
  const auto found = std::ranges::find(call.outputs, output, &WantedOutput::name);
  return found == call.outputs.end() ? call.binary_outputs : found->binary;
}

}  // namespace

Result<Written> infer_answer(const std::string& model, const InferCall& call,
                             const InferAnswer& answer) {
  for (const WantedOutput& wanted : call.outputs)
    if (std::ranges::find(answer.outputs, wanted.name, &InferTensor::name) == answer.outputs.end())
      return Error{ErrorCode::invalid_argument,
                   "the model has no output '" + wanted.name + "': its metadata lists them"};
  auto outputs = nlohmann::json::array();
  std::string behind;
  bool any_binary = false;
  for (const InferTensor& tensor : answer.outputs) {
    if (!is_wanted(call, tensor.name)) continue;
    nlohmann::json told{
        {"name", tensor.name}, {"datatype", name_of(tensor.kind)}, {"shape", tensor.shape}};
    if (is_binary(call, tensor.name)) {
      any_binary = true;
      told["parameters"] = {{"binary_data_size", tensor.data.size()}};
      behind += as_text(tensor.data);
    } else {
      told["data"] = values_of(tensor);
    }
    outputs.push_back(std::move(told));
  }
  nlohmann::json told{{"model_name", model},
                      {"model_version", std::to_string(answer.version)},
                      {"outputs", std::move(outputs)}};
  if (!call.id.empty()) told["id"] = call.id;
  Written written{dumped(told)};
  if (any_binary) written.json_bytes = written.body.size();
  written.body += behind;
  return written;
}

InferAnswer text_answer(const GenerateAnswer& text) {
  InferTensor output{"text_output", TensorKind::bytes, {1}, {}};
  const auto size = static_cast<std::uint32_t>(text.text.size());
  output.data.resize(sizeof size + text.text.size());
  std::memcpy(output.data.data(), &size, sizeof size);
  std::memcpy(output.data.data() + sizeof size, text.text.data(), text.text.size());
  return {{std::move(output)}, text.model_digest, text.step, text.seconds, text.version};
}

std::string server(std::string_view version) {
  return dumped({{"name", "gpunode"},
                 {"version", version},
                 {"extensions", {"binary_tensor_data", "model_repository", "statistics"}}});
}

std::string model(const std::string& name, const InferDescription& told) {
  return dumped({{"name", name},
                 {"versions", {std::to_string(told.version)}},
                 {"platform", told.platform},
                 {"inputs", forms_of(told.inputs)},
                 {"outputs", forms_of(told.outputs)}});
}

std::string is_ready(const std::string& name, const std::string& why) {
  nlohmann::json told = {{"name", name}, {"ready", why.empty()}};
  if (!why.empty()) told["error"] = why;
  return dumped(told);
}

std::string index(const std::vector<std::string>& names) {
  auto all = nlohmann::json::array();
  for (const std::string& name : names)
    all.push_back({{"name", name}, {"state", "READY"}, {"reason", ""}});
  return dumped(all);
}

std::string statistics(const std::string& name, const ModelCounts& counts) {
  const nlohmann::json none = duration_of(0, {});
  return dumped({{"model_stats",
                  {{{"name", name},
                    {"version", std::to_string(counts.version)},
                    {"last_inference", counts.last_ms},
                    {"inference_count", counts.rows},
                    {"execution_count", counts.succeeded},
                    {"inference_stats",
                     {{"success", duration_of(counts.succeeded, counts.succeeded_time)},
                      {"fail", duration_of(counts.failed, counts.failed_time)},
                      {"queue", none},
                      {"compute_input", none},
                      {"compute_infer", duration_of(counts.succeeded, counts.succeeded_time)},
                      {"compute_output", none}}}}}}});
}

int status_of(const Error& error) {
  return error.code == ErrorCode::unsupported ? 501 : http_status_of(error.code);
}

std::string error_body(const Error& error) {
  return dumped({{"error", error.detail}});
}

}  // namespace gpunode::inference::kserve
