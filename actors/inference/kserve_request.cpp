// What kserve.hpp promises of requests: each field read once, strictly, and tensors made of either form.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "actors/inference/detail/json_of_strangers.hpp"
#include "actors/inference/kserve.hpp"
#include "runtime/base/nearest.hpp"

namespace gpunode::inference::kserve {
namespace {

constexpr std::size_t kMostTensors = 16;
constexpr int kDeepest = 12;  // as a tensor may be
constexpr const char* kTextInput = "text_input";

Error bad(std::string why) {
  return {ErrorCode::invalid_argument, std::move(why)};
}

using Names = std::span<const std::string_view>;
constexpr std::string_view kOfCall[] = {"id", "parameters", "inputs", "outputs"};
constexpr std::string_view kOfInput[] = {"name", "shape", "datatype", "parameters", "data"};
constexpr std::string_view kOfInputParameters[] = {"binary_data_size"};
constexpr std::string_view kOfOutput[] = {"name", "parameters"};
constexpr std::string_view kOfOutputParameters[] = {"binary_data"};
constexpr std::string_view kOfParameters[] = {"binary_data_output"};

// The fields that an object may have; else the error.
std::optional<Error> unknown_in(const nlohmann::json& object, const std::string& what,
                                Names known) {
  if (!object.is_object()) return bad(what + " is no JSON object");
  for (const auto& [name, value] : object.get_ref<const nlohmann::json::object_t&>())
    if (std::ranges::find(known, name) == known.end())
      return bad(what + ": " +
                 unknown_word("field", name, std::vector<std::string>(known.begin(), known.end())));
  return {};
}

// An object without fields where there is none.
const nlohmann::json& parameters_in(const nlohmann::json& object) {
  static const nlohmann::json kNone = nlohmann::json::object();
  const auto found = object.find("parameters");
  return found == object.end() ? kNone : *found;
}

Result<std::string> text_in(const nlohmann::json& object, const char* field,
                            const std::string& what) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string())
    return bad(what + ": '" + field + "' is missing, or no text");
  return found->get<std::string>();
}

// Where a parameter may be true or false.
Result<bool> flag_in(const nlohmann::json& parameters, const char* name) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return false;
  if (!found->is_boolean()) return bad("'" + std::string(name) + "' is true or false");
  return found->get<bool>();
}

Result<TensorKind> kind_named(const std::string& datatype, const std::string& what) {
  for (const auto& [name, kind] : {std::pair("FP32", TensorKind::fp32),
                                   {"INT64", TensorKind::int64},
                                   {"BYTES", TensorKind::bytes}})
    if (datatype == name) return kind;
  static const std::vector<std::string> kOthers = {"BOOL",   "UINT8", "UINT16", "UINT32",
                                                   "UINT64", "INT8",  "INT16",  "INT32",
                                                   "FP16",   "BF16",  "FP64"};
  if (std::ranges::find(kOthers, datatype) != kOthers.end())
    return Error{ErrorCode::unsupported,
                 what + ": datatype " + datatype + " is not read here: send FP32, INT64 or BYTES"};
  return bad(what + ": '" + datatype + "' is no datatype");
}

template <class Number>
void append_number(Bytes& data, Number value) {
  const std::size_t before = data.size();
  data.resize(before + sizeof value);
  std::memcpy(data.data() + before, &value, sizeof value);
}

// One element behind the others; else false.
bool append(const nlohmann::json& value, TensorKind kind, Bytes& data) {
  if (kind == TensorKind::bytes) {
    if (!value.is_string()) return false;
    const auto& text = value.get_ref<const std::string&>();
    append_number(data, static_cast<std::uint32_t>(text.size()));
    const ByteView bytes = as_bytes(text);
    data.insert(data.end(), bytes.begin(), bytes.end());
    return true;
  }
  if (kind == TensorKind::int64) {
    if (!value.is_number_integer()) return false;
    if (value.is_number_unsigned() &&
        value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
      return false;
    append_number(data, value.get<std::int64_t>());
    return true;
  }
  if (!value.is_number()) return false;
  const auto real = value.get<double>();
  if (!(std::abs(real) <= static_cast<double>(std::numeric_limits<float>::max()))) return false;
  append_number(data, static_cast<float>(real));
  return true;
}

// Flat, or as lists in lists.
bool append_all(const nlohmann::json& values, TensorKind kind, Bytes& data) {
  for (const nlohmann::json& value : values) {
    const bool good = value.is_array() ? append_all(value, kind, data) : append(value, kind, data);
    if (!good) return false;
  }
  return true;
}

// Of the body behind its JSON, as much as the tensor says.
Result<void> take_binary(const nlohmann::json& size, std::string_view& behind,
                         const std::string& what, InferTensor& tensor) {
  if (!size.is_number_unsigned() || size.get<std::uint64_t>() > behind.size())
    return bad(what +
               ": its 'binary_data_size' is no number of bytes that the body has behind its "
               "JSON");
  const auto count = size.get<std::size_t>();
  tensor.data = to_bytes(as_bytes(behind.substr(0, count)));
  behind.remove_prefix(count);
  return {};
}

Result<InferTensor> read_input(const nlohmann::json& from, std::string_view& behind) {
  std::string what = "an input";
  if (auto wrong = unknown_in(from, what, kOfInput)) return *wrong;
  auto name = text_in(from, "name", what);
  if (!name) return name.error();
  InferTensor tensor{.name = *name};
  what = "input '" + *name + "'";
  const auto datatype = text_in(from, "datatype", what);
  if (!datatype) return datatype.error();
  const auto kind = kind_named(*datatype, what);
  if (!kind) return kind.error();
  tensor.kind = *kind;
  const auto shape = from.find("shape");
  if (shape == from.end() || !shape->is_array() ||
      !std::ranges::all_of(*shape, [](const nlohmann::json& one) {
        return one.is_number_unsigned() && one.get<std::uint64_t>() < (std::uint64_t{1} << 40);
      }))
    return bad(what + ": its 'shape' is no list of sizes");
  tensor.shape = shape->get<std::vector<std::int64_t>>();
  const nlohmann::json& parameters = parameters_in(from);
  if (auto wrong = unknown_in(parameters, what + "'s parameters", kOfInputParameters))
    return *wrong;
  const auto data = from.find("data");
  if (parameters.contains("binary_data_size") == (data != from.end()))
    return bad(what + ": it wants either 'data' or the parameter 'binary_data_size'");
  if (data == from.end()) {
    auto taken = take_binary(parameters["binary_data_size"], behind, what, tensor);
    if (!taken) return taken.error();
  } else if (!data->is_array() || !append_all(*data, tensor.kind, tensor.data)) {
    return bad(what + ": its 'data' holds something that is no " + *datatype);
  }
  if (!is_whole(tensor)) return bad(what + ": it has not as many elements as its shape says");
  return tensor;
}

Result<WantedOutput> read_output(const nlohmann::json& from, bool binary_outputs) {
  if (auto wrong = unknown_in(from, "an output", kOfOutput)) return *wrong;
  auto name = text_in(from, "name", "an output");
  if (!name) return name.error();
  WantedOutput wanted{*name, binary_outputs};
  const nlohmann::json& parameters = parameters_in(from);
  const std::string what = "output '" + *name + "'s parameters";
  if (auto wrong = unknown_in(parameters, what, kOfOutputParameters)) return *wrong;
  const auto binary = flag_in(parameters, "binary_data");
  if (!binary) return binary.error();
  if (parameters.contains("binary_data")) wanted.binary = *binary;
  return wanted;
}

// One parameter of a text; an error where it is out of its range.
class TextParameters {
 public:
  explicit TextParameters(const nlohmann::json& from) : from_(from) {}

  void real(const char* name, double low, double high, double& value) {
    const auto found = from_.find(name);
    if (found == from_.end()) return;
    const double given = found->is_number() ? found->get<double>() : low - 1;
    if (given >= low && given <= high)
      value = given;
    else
      failure = bad("parameter '" + std::string(name) + "' is a number from " +
                    nlohmann::json(low).dump() + " to " + nlohmann::json(high).dump());
  }
  template <class Whole>
  void whole(const char* name, std::uint64_t high, Whole& value) {
    const auto found = from_.find(name);
    if (found == from_.end()) return;
    if (found->is_number_unsigned() && found->get<std::uint64_t>() <= high)
      value = static_cast<Whole>(found->get<std::uint64_t>());
    else
      failure = bad("parameter '" + std::string(name) + "' is a whole number from 0 to " +
                    std::to_string(high));
  }

  std::optional<Error> failure;

 private:
  const nlohmann::json& from_;
};

constexpr std::string_view kTextParameters[] = {"binary_data_output",
                                                "max_tokens",
                                                "temperature",
                                                "top_p",
                                                "top_k",
                                                "min_p",
                                                "presence_penalty",
                                                "frequency_penalty",
                                                "seed",
                                                "stop",
                                                "priority",
                                                "repetition_penalty"};

Result<GenerateRequest> read_text(const InferTensor& input, const nlohmann::json& parameters,
                                  std::uint64_t random) {
  if (auto wrong = unknown_in(parameters, "the parameters", kTextParameters)) return *wrong;
  if (input.kind != TensorKind::bytes ||
      element_count(input.shape) != std::optional<std::size_t>(1))
    return bad("input 'text_input' is one text: datatype BYTES, shape [1]");
  if (input.data.size() > kLongestTextBytes)
    return bad("input 'text_input' has more than " + std::to_string(kLongestTextBytes) +
               " bytes: shorten it");
  GenerateRequest text{.prompt = std::string(as_text(ByteView(input.data).subspan(4))),
                       .seed = random,
                       .whole_prompt = true};
  TextParameters fields(parameters);
  fields.whole("max_tokens", 65536, text.max_tokens);
  fields.real("temperature", 0, 2, text.temperature);
  fields.real("top_p", 0, 1, text.top_p);
  fields.whole("top_k", 1'000'000, text.top_k);
  fields.real("min_p", 0, 1, text.min_p);
  fields.real("presence_penalty", -2, 2, text.presence_penalty);
  fields.real("frequency_penalty", -2, 2, text.frequency_penalty);
  fields.real("repetition_penalty", 0.01, 100, text.repetition_penalty);
  fields.whole("seed", std::numeric_limits<std::uint64_t>::max(), text.seed);
  fields.whole("priority", 100, text.priority);
  if (fields.failure) return *fields.failure;
  if (const auto stop = parameters.find("stop"); stop != parameters.end()) {
    if (!stop->is_string() || stop->get_ref<const std::string&>().size() > kLongestStopBytes)
      return bad("parameter 'stop' is a text of at most 1024 bytes");
    text.stop = {stop->get<std::string>()};
  }
  return text;
}

Result<void> read_tensors(const nlohmann::json& json, std::string_view& behind, InferCall& call) {
  const auto inputs = json.find("inputs");
  if (inputs == json.end() || !inputs->is_array() || inputs->empty() ||
      inputs->size() > kMostTensors)
    return bad("'inputs' is a list of 1 to 16 tensors");
  for (const nlohmann::json& one : *inputs) {
    auto input = read_input(one, behind);
    if (!input) return input.error();
    call.inputs.push_back(*std::move(input));
  }
  if (!behind.empty())
    return bad("the body has " + std::to_string(behind.size()) +
               " bytes behind its JSON that no input's 'binary_data_size' speaks of");
  const auto outputs = json.find("outputs");
  if (outputs == json.end()) return {};
  if (!outputs->is_array() || outputs->size() > kMostTensors)
    return bad("'outputs' is a list of at most 16 outputs");
  for (const nlohmann::json& one : *outputs) {
    auto output = read_output(one, call.binary_outputs);
    if (!output) return output.error();
    call.outputs.push_back(*std::move(output));
  }
  return {};
}

}  // namespace

Result<InferCall> read_infer(std::string_view body, std::optional<std::size_t> json_bytes,
                             std::uint64_t random) {
  if (json_bytes && (*json_bytes == 0 || *json_bytes > body.size()))
    return bad(
        "Inference-Header-Content-Length is the number of bytes that the body's JSON has, "
        "which comes first: 1 to " +
        std::to_string(body.size()));
  std::string_view behind = body.substr(json_bytes.value_or(body.size()));
  const nlohmann::json json =
      object_within<nlohmann::json>(body.substr(0, body.size() - behind.size()), kDeepest);
  if (!json.is_object()) return bad("the request's body is no JSON object");
  if (auto wrong = unknown_in(json, "the request", kOfCall)) return *wrong;
  InferCall call;
  if (const auto id = json.find("id"); id != json.end()) {
    if (!id->is_string()) return bad("'id' is a text");
    call.id = id->get<std::string>();
  }
  const nlohmann::json& parameters = parameters_in(json);
  if (!parameters.is_object()) return bad("'parameters' is an object");
  const auto binary = flag_in(parameters, "binary_data_output");
  if (!binary) return binary.error();
  call.binary_outputs = *binary;
  if (auto read = read_tensors(json, behind, call); !read) return read.error();
  if (call.inputs.size() != 1 || call.inputs.front().name != kTextInput) {
    if (auto wrong = unknown_in(parameters, "the parameters", kOfParameters)) return *wrong;
    return call;
  }
  auto text = read_text(call.inputs.front(), parameters, random);
  if (!text) return text.error();
  call.text = *std::move(text);
  return call;
}

}  // namespace gpunode::inference::kserve
