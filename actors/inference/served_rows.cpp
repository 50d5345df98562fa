// What a served model tells of rows: their scores, and of a text of rows each one's class.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "actors/inference/row_answers.hpp"
#include "actors/inference/served_model.hpp"
#include "kernels/model/model_code.hpp"
#include "runtime/dataset/table_dataset.hpp"

namespace gpunode::inference {

Result<GenerateAnswer> ServedModel::tell_classes(const GenerateRequest& request, Time deadline) {
  const Time begin = clock_->now();
  if (begin >= deadline)
    return Error{ErrorCode::timeout, "the deadline passed while the request waited"};
  GenerateAnswer answer;
  std::string_view left = request.prompt;
  std::size_t number = 0;
  answer.finish = "stop";
  while (!left.empty()) {  // as many answers as rows, whatever a text's length may be
    ++number;
    if (clock_->now() >= deadline) {
      answer.finish = "deadline";
      break;
    }
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(left.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (number == 1 && dataset::is_header(line)) continue;
    const auto features = dataset::features_of(line, features_);
    if (!features) return features.error().within("row " + std::to_string(number));
    const auto told = class_of(*features);
    if (!told) return told.error().within("row " + std::to_string(number));
    answer.text += std::to_string(*told) + "\n";
    ++answer.tokens;
  }
  if (answer.tokens == 0 && answer.finish == "stop")
    return Error{ErrorCode::invalid_argument,
                 "the model tells classes of rows, and there is none: give a line of " +
                     std::to_string(features_) +
                     " numbers for each, separated by commas, by --prompt or --prompt-file"};
  answer.seconds = std::chrono::duration<double>(clock_->now() - begin).count();
  return answer;
}

// A row's label is 0.
Result<void> ServedModel::score_rows(std::span<const float> rows, std::span<float> scores) {
  const std::size_t count = rows.size() / features_, bytes = is_.model().sample_bytes();
  std::vector<std::uint8_t> memory(count * bytes);
  std::vector<model::Sample> samples(count);
  for (std::size_t row = 0; row < count; ++row) {
    const auto own = rows.subspan(row * features_, features_);
    std::memcpy(memory.data() + row * bytes, own.data(), own.size_bytes());
    samples[row] = {row, std::span(memory).subspan(row * bytes, bytes)};
  }
  auto done = [&] {
    std::lock_guard lock(scoring_);
    return use_.run([&] {
      use_.got_on();
      return model::guarded("the model", [&] { return program_->scores(0, samples, scores); });
    });
  }();
  if (done && std::ranges::all_of(scores, [](float score) { return std::isfinite(score); }))
    computed_();
  return done;
}

Result<std::size_t> ServedModel::class_of(std::span<const float> features) {
  std::vector<float> scores(row_classes());
  if (auto done = score_rows(features, scores); !done) return done.error();
  return best_class(scores);
}

}  // namespace gpunode::inference
