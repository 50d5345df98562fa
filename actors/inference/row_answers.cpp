#include "actors/inference/row_answers.hpp"

#include <algorithm>
#include <cmath>

#include "actors/inference/tensors.hpp"
#include "actors/inference/vector_answers.hpp"

namespace gpunode::inference {
namespace {

constexpr const char *kFeatures = "features", *kClass = "class", *kScores = "scores";
constexpr std::int64_t kAny = -1;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

}  // namespace

Result<std::vector<float>> features_in(const InferRequest& request, std::size_t count) {
  const auto bad = [](const std::string& why) { return Error{ErrorCode::invalid_argument, why}; };
  if (request.inputs.size() != 1 || request.inputs.front().name != kFeatures)
    return bad("the model reads one input, 'features', and there " +
               (request.inputs.size() == 1 ? "is '" + request.inputs.front().name + "'"
                                           : "are " + std::to_string(request.inputs.size())));
  const InferTensor& given = request.inputs.front();
  const auto features = static_cast<std::int64_t>(count);
  if (given.kind != TensorKind::fp32) return bad("'features' is of datatype FP32");
  if (given.shape.size() != 2 || given.shape[1] != features || given.shape[0] < 1)
    return bad("'features' has shape [-1, " + std::to_string(features) + "], not " +
               shape_text(given.shape));
  std::vector<float> rows = values_of<float>(given);
  const auto wrong = std::ranges::find_if(rows, [](float value) { return !std::isfinite(value); });
  if (wrong != rows.end())
    return bad("'features' holds a value that is no finite number, in row " +
               std::to_string((wrong - rows.begin()) / features));
  return rows;
}

InferDescription describe_tensors(const ServedModel& model) {
  if (model.encoder()) return describe_vectors(model);
  const ModelFacts& facts = model.facts();
  if (model.row_features() == 0)
    return {"gpunode_text",
            {{"text_input", TensorKind::bytes, {1}}},
            {{"text_output", TensorKind::bytes, {1}}},
            facts.digest,
            facts.step};
  const auto features = static_cast<std::int64_t>(model.row_features());
  return {"gpunode_classifier",
          {{kFeatures, TensorKind::fp32, {kAny, features}}},
          {{kClass, TensorKind::int64, {kAny}},
           {kScores, TensorKind::fp32, {kAny, static_cast<std::int64_t>(model.row_classes())}}},
          facts.digest,
          facts.step};
}

Result<std::size_t> best_class(std::span<const float> scores) {
  if (!std::ranges::all_of(scores, [](float score) { return std::isfinite(score); }))
    return Error{
        ErrorCode::internal,
        "the model's scores are no finite numbers: its training has gone wrong, or the row "
        "is far outside what it was trained on"};
  return static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
}

Result<InferAnswer> told_rows(std::span<const float> scores, const ServedModel& model,
                              Duration took) {
  const std::size_t classes = model.row_classes(), count = scores.size() / classes;
  std::vector<std::int64_t> best(count);
  for (std::size_t row = 0; row < count; ++row) {
    const auto own = scores.subspan(row * classes, classes);
    const auto told = best_class(own);
    if (!told) return told.error().within("row " + std::to_string(row));
    best[row] = static_cast<std::int64_t>(*told);
  }
  const auto all = static_cast<std::int64_t>(count);
  return InferAnswer{
      {tensor_of(kClass, TensorKind::int64, {all}, best),
       tensor_of(kScores, TensorKind::fp32, {all, static_cast<std::int64_t>(classes)},
                 std::vector<float>(scores.begin(), scores.end()))},
      model.facts().digest,
      model.facts().step,
      std::chrono::duration<double>(took).count(),
      model.facts().version};
}

Result<InferAnswer> answer_tensors(ServedModel& model, const InferRequest& request,
                                   const Clock& clock, Time deadline) {
  if (model.encoder()) return answer_texts(model, request, clock, deadline);
  return Error{ErrorCode::unsupported,
               "the model continues texts: give it the input 'text_input', or ask "
               "/v1/completions"};
}

}  // namespace gpunode::inference
