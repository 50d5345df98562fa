#include "actors/inference/kserve.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
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

// JSON written as it is told: an answer's tensors are not made a tree of first.
class JsonText {
 public:
  template <class Value>
  void field(std::string_view name, const Value& value) {
    begin(name);
    add(value);
  }
  template <class Content>
  void list(std::string_view name, const Content& content) {
    begin(name);
    within('[', ']', content);
  }
  template <class Content>
  void object(std::string_view name, const Content& content) {
    begin(name);
    within('{', '}', content);
  }
  template <class Value>
  void element(const Value& value) {
    separate();
    add(value);
  }
  template <class Content>
  void object(const Content& content) {
    separate();
    within('{', '}', content);
  }
  std::string take() { return std::move(text_); }

 private:
  template <class Content>
  void within(char opening, char closing, const Content& content) {
    text_ += opening;
    content();
    text_ += closing;
  }
  void separate() {
    if (!text_.empty() && text_.back() != '[' && text_.back() != '{') text_ += ',';
  }
  void begin(std::string_view name) {
    separate();
    text_ += '"';
    text_ += name;
    text_ += "\":";
  }
  void add(std::string_view text) { text_ += dumped(text); }
  // The fewest digits that are read as it again, never as a whole number, which has no -0; JSON has none for
  // what is no number.
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void add(Number value) {
    if constexpr (std::is_floating_point_v<Number>)
      if (!std::isfinite(value)) return void(text_ += "null");
    char digits[32];
    const std::string_view shown(digits, std::to_chars(digits, std::end(digits), value).ptr);
    text_ += shown;
    if (std::is_floating_point_v<Number> && shown.find_first_of(".e") == shown.npos) text_ += ".0";
  }

  std::string text_;
};

template <class Number>
void add_numbers(ByteView bytes, JsonText& to) {
  for (std::size_t at = 0; at < bytes.size() / sizeof(Number); ++at)
    to.element(number_at<Number>(bytes, at));
}

// Of a tensor that is whole.
void add_values(const InferTensor& tensor, JsonText& to) {
  const ByteView bytes = tensor.data;
  if (tensor.kind == TensorKind::fp32) add_numbers<float>(bytes, to);
  if (tensor.kind == TensorKind::int64) add_numbers<std::int64_t>(bytes, to);
  if (tensor.kind == TensorKind::bytes)
    for (std::size_t at = 0; at < bytes.size();) {
      const auto size = number_at<std::uint32_t>(bytes.subspan(at), 0);
      to.element(as_text(bytes.subspan(at + 4, size)));
      at += 4 + size;
    }
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
  std::string behind;
  bool any_binary = false;
  JsonText json;
  const auto add_output = [&](const InferTensor& tensor) {
    json.field("name", tensor.name);
    json.field("datatype", name_of(tensor.kind));
    json.list("shape", [&] {
      for (const std::int64_t size : tensor.shape) json.element(size);
    });
    if (!is_binary(call, tensor.name)) return json.list("data", [&] { add_values(tensor, json); });
    any_binary = true;
    json.object("parameters", [&] { json.field("binary_data_size", tensor.data.size()); });
    behind += as_text(tensor.data);
  };
  json.object([&] {
    if (!call.id.empty()) json.field("id", call.id);
    json.field("model_name", model);
    json.field("model_version", std::to_string(answer.version));
    json.list("outputs", [&] {
      for (const InferTensor& tensor : answer.outputs)
        if (is_wanted(call, tensor.name)) json.object([&] { add_output(tensor); });
    });
  });
  Written written{json.take()};
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
