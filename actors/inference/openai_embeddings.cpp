#include "actors/inference/openai_embeddings.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "actors/inference/detail/request_prompts.hpp"
#include "actors/inference/tensors.hpp"
#include "actors/inference/vector_answers.hpp"
#include "runtime/security/crypto.hpp"

namespace gpunode::inference::openai {
namespace {

constexpr std::size_t kMostTexts = 2048;

// Texts as they are where all are, else all as tokens.
void put_inputs(Fields& fields, const std::vector<Prompt>& prompts, InferRequest& request) {
  const auto is_text = [](const Prompt& prompt) { return prompt.tokens.empty(); };
  const auto texts = std::ranges::count_if(prompts, is_text);
  if (texts != 0 && static_cast<std::size_t>(texts) != prompts.size())
    return fields.refuse("input", "is either of texts or of tokens, not of both");
  if (texts != 0) {
    std::vector<std::string> all;
    for (const Prompt& prompt : prompts) all.push_back(prompt.text);
    request.inputs = {texts_tensor(kTextTensor, all)};
    return;
  }
  std::vector<std::int64_t> tokens, lengths;
  for (const Prompt& prompt : prompts) {
    tokens.insert(tokens.end(), prompt.tokens.begin(), prompt.tokens.end());
    lengths.push_back(static_cast<std::int64_t>(prompt.tokens.size()));
  }
  const auto shape = [](const auto& values) {
    return std::vector<std::int64_t>{static_cast<std::int64_t>(values.size())};
  };
  request.inputs = {tensor_of(kTokensTensor, TensorKind::int64, shape(tokens), tokens),
                    tensor_of(kLengthsTensor, TensorKind::int64, shape(lengths), lengths)};
}

// With padding, as RFC 4648 has it.
std::string base64_of(ByteView bytes) {
  std::string text = security::to_base64url(bytes);
  std::ranges::replace(text, '-', '+');
  std::ranges::replace(text, '_', '/');
  text.append((4 - text.size() % 4) % 4, '=');
  return text;
}

const InferTensor* output_of(const InferAnswer& answer, const char* name, TensorKind kind) {
  const auto found = std::ranges::find(answer.outputs, name, &InferTensor::name);
  return found == answer.outputs.end() || found->kind != kind ? nullptr : &*found;
}

}  // namespace

Result<EmbeddingsRequest> read_embeddings(std::string_view body, std::string* wrong_field) {
  Json document = parsed(body);
  if (!document.is_object()) return no_object();
  Fields fields(std::move(document));
  EmbeddingsRequest request;
  const Json* model = fields.find("model");
  if (!model || !model->is_string())
    fields.refuse("model", "must name a model: GET /v1/models lists them");
  else
    request.model = model->get<std::string>();
  const std::vector<Prompt> prompts = read_prompts(fields, "input", kMostTexts);
  if (!fields.failure) put_inputs(fields, prompts, request.texts);
  if (const Json* encoding = fields.find("encoding_format"); encoding && !fields.failure) {
    request.in_base64 = *encoding == "base64";
    if (!request.in_base64 && *encoding != "float")
      fields.refuse("encoding_format", "must be \"float\" or \"base64\"");
  }
  if (fields.find("dimensions") && !fields.failure)
    fields.refuse("dimensions", "is not offered: a vector has as many numbers as the model gives");
  (void)fields.find("user");  // who asks on the client's side changes nothing
  fields.refuse_unknown();
  if (!fields.failure) return request;
  if (wrong_field) *wrong_field = fields.wrong;
  return *fields.failure;
}

Result<EmbeddingsAnswer> embeddings(const EmbeddingsRequest& request, const InferAnswer& answer) {
  const InferTensor* vectors = output_of(answer, kVectorTensor, TensorKind::fp32);
  const InferTensor* counts = output_of(answer, kCountTensor, TensorKind::int64);
  if (!vectors || !counts || vectors->shape.size() != 2)
    return Error{ErrorCode::corrupted, "the replica gave no vectors"};
  EmbeddingsAnswer told;
  for (const std::int64_t count : values_of<std::int64_t>(*counts))
    told.tokens += static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0));
  const auto width = static_cast<std::size_t>(vectors->shape[1]);
  const std::vector<float> values = values_of<float>(*vectors);
  Json data = Json::array();
  for (std::size_t at = 0; width > 0 && at < values.size(); at += width) {
    const std::span<const float> one = std::span(values).subspan(at, width);
    data.push_back({{"object", "embedding"},
                    {"index", at / width},
                    {"embedding", request.in_base64 ? Json(base64_of(std::as_bytes(one)))
                                                    : Json(std::vector(one.begin(), one.end()))}});
  }
  told.body = Json{{"object", "list"},
                   {"data", std::move(data)},
                   {"model", request.model},
                   {"usage", {{"prompt_tokens", told.tokens}, {"total_tokens", told.tokens}}}}
                  .dump(-1, ' ', false, Json::error_handler_t::replace);
  return told;
}

}  // namespace gpunode::inference::openai
