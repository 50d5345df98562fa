#include "actors/inference/row_answers.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "actors/inference/tensors.hpp"
#include "actors/inference/vector_answers.hpp"
#include "kernels/model/model_code.hpp"

namespace gpunode::inference {
namespace {

constexpr const char *kFeatures = "features", *kClass = "class", *kScores = "scores";
constexpr std::int64_t kAny = -1;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

// The rows' numbers.
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

}  // namespace

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

Result<void> ServedModel::score_row(std::span<const float> features, std::span<float> scores) {
  std::vector<std::uint8_t> sample(is_.model().sample_bytes());  // its label is 0
  std::memcpy(sample.data(), features.data(), features.size_bytes());
  auto done = use_.run([&] {
    use_.got_on();
    return model::guarded("the model", [&] { return program_->scores(0, {0, sample}, scores); });
  });
  if (!done) return done;
  if (std::ranges::all_of(scores, [](float score) { return std::isfinite(score); })) {
    computed_();
    return {};
  }
  return {
      ErrorCode::internal,
      "the model's scores are no finite numbers: its training has gone wrong, or the row is far "
      "outside what it was trained on"};
}

Result<InferAnswer> answer_rows(ServedModel& model, const InferRequest& request, const Clock& clock,
                                Time deadline) {
  if (model.encoder()) return answer_texts(model, request, clock, deadline);
  const std::size_t features = model.row_features(), classes = model.row_classes();
  if (features == 0)
    return Error{ErrorCode::unsupported,
                 "the model continues texts: give it the input 'text_input', or ask "
                 "/v1/completions"};
  const auto rows = features_in(request, features);
  if (!rows) return rows.error();
  const Time begin = clock.now();
  const std::size_t count = rows->size() / features;
  std::vector<std::int64_t> best(count);
  std::vector<float> scores(count * classes);
  for (std::size_t row = 0; row < count; ++row) {
    if (clock.now() >= deadline)
      return Error{ErrorCode::timeout, "the deadline passed after " + std::to_string(row) + " of " +
                                           std::to_string(count) + " rows: send fewer at once"};
    const std::span own = std::span(scores).subspan(row * classes, classes);
    if (auto done = model.score_row(std::span(*rows).subspan(row * features, features), own); !done)
      return done.error().within("row " + std::to_string(row));
    best[row] = std::ranges::max_element(own) - own.begin();
  }
  const auto all = static_cast<std::int64_t>(count);
  return InferAnswer{
      {tensor_of(kClass, TensorKind::int64, {all}, best),
       tensor_of(kScores, TensorKind::fp32, {all, static_cast<std::int64_t>(classes)}, scores)},
      model.facts().digest,
      model.facts().step,
      std::chrono::duration<double>(clock.now() - begin).count()};
}

}  // namespace gpunode::inference
