#include "actors/inference/vector_answers.hpp"

#include <algorithm>
#include <cstring>

#include "actors/inference/tensors.hpp"

namespace gpunode::inference {
namespace {

constexpr std::int64_t kAny = -1;

Error bad(std::string why) {
  return {ErrorCode::invalid_argument, std::move(why)};
}

// One of the texts that are asked for.
using Text = std::variant<std::string, std::vector<model::Token>>;

Result<std::vector<Text>> texts_of_tokens(const InferTensor& tokens, const InferTensor& lengths) {
  if (tokens.kind != TensorKind::int64 || lengths.kind != TensorKind::int64)
    return bad("'token_ids' and 'lengths' are of datatype INT64");
  const std::vector<std::int64_t> all = values_of<std::int64_t>(tokens);
  std::vector<Text> texts;
  std::size_t at = 0;
  for (const std::int64_t length : values_of<std::int64_t>(lengths)) {
    if (length < 0 || static_cast<std::size_t>(length) > all.size() - at)
      return bad("'lengths' are more than the numbers in 'token_ids'");
    std::vector<model::Token> text;
    for (std::size_t end = at + static_cast<std::size_t>(length); at < end; ++at) {
      // What is no token anyway becomes one that no vocabulary has.
      const bool fits = all[at] >= 0 && all[at] <= INT32_MAX;
      text.push_back(fits ? static_cast<model::Token>(all[at]) : model::Token{-1});
    }
    texts.emplace_back(std::move(text));
  }
  if (at != all.size()) return bad("'lengths' are less than the numbers in 'token_ids'");
  return texts;
}

Result<std::vector<Text>> texts_in(const InferRequest& request) {
  const auto find = [&](const char* name) {
    const auto found = std::ranges::find(request.inputs, name, &InferTensor::name);
    return found == request.inputs.end() ? nullptr : &*found;
  };
  const InferTensor *text = find(kTextTensor), *tokens = find(kTokensTensor),
                    *lengths = find(kLengthsTensor);
  if (text && request.inputs.size() == 1) {
    if (text->kind != TensorKind::bytes) return bad("'text' is of datatype BYTES");
    std::vector<Text> texts;
    for (std::string& one : elements_of(*text)) texts.emplace_back(std::move(one));
    return texts;
  }
  if (tokens && lengths && request.inputs.size() == 2) return texts_of_tokens(*tokens, *lengths);
  return bad(
      "the model represents texts: it reads one input, 'text', or two, 'token_ids' and "
      "'lengths'");
}

}  // namespace

InferDescription describe_vectors(const ServedModel& model) {
  const auto width = static_cast<std::int64_t>(model.encoder()->width());
  return {
      "gpunode_encoder",
      {{kTextTensor, TensorKind::bytes, {kAny}}},
      {{kVectorTensor, TensorKind::fp32, {kAny, width}}, {kCountTensor, TensorKind::int64, {kAny}}},
      model.facts().digest,
      model.facts().step};
}

Result<InferAnswer> answer_texts(ServedModel& model, const InferRequest& request,
                                 const Clock& clock, Time deadline) {
  const auto texts = texts_in(request);
  if (!texts) return texts.error();
  if (texts->empty()) return bad("there is no text");
  const Time begin = clock.now();
  std::vector<float> vectors;
  std::vector<std::int64_t> tokens;
  for (const Text& text : *texts) {
    if (clock.now() >= deadline)
      return Error{ErrorCode::timeout,
                   "the deadline passed after " + std::to_string(tokens.size()) + " of " +
                       std::to_string(texts->size()) + " texts: send fewer at once"};
    const auto made = std::visit([&](const auto& one) { return model.represent(one); }, text);
    if (!made) return made.error().within("text " + std::to_string(tokens.size()));
    vectors.insert(vectors.end(), made->values.begin(), made->values.end());
    tokens.push_back(static_cast<std::int64_t>(made->tokens));
  }
  const auto count = static_cast<std::int64_t>(tokens.size());
  const auto width = static_cast<std::int64_t>(model.encoder()->width());
  return InferAnswer{{tensor_of(kVectorTensor, TensorKind::fp32, {count, width}, vectors),
                      tensor_of(kCountTensor, TensorKind::int64, {count}, tokens)},
                     model.facts().digest,
                     model.facts().step,
                     std::chrono::duration<double>(clock.now() - begin).count()};
}

}  // namespace gpunode::inference
