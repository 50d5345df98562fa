#include "actors/inference/stop_sequences.hpp"

#include <algorithm>
#include <utility>

namespace gpunode::inference {
namespace {

// Bytes at the end of `text` that `sequence` begins with.
std::size_t begun(std::string_view text, std::string_view sequence) {
  std::size_t length = std::min(text.size(), sequence.size() - 1);
  while (!text.ends_with(sequence.substr(0, length))) --length;
  return length;
}

}  // namespace

StopSequences::StopSequences(std::vector<std::string> sequences)
    : sequences_(std::move(sequences)) {
  std::erase(sequences_, "");
}

std::string StopSequences::add(std::string_view piece) {
  if (over_) return {};
  held_ += piece;
  std::size_t first = std::string::npos, most_begun = 0;
  for (const std::string& sequence : sequences_) {
    first = std::min(first, held_.find(sequence));
    most_begun = std::max(most_begun, begun(held_, sequence));
  }
  over_ = first != std::string::npos;
  const std::size_t sure = over_ ? first : held_.size() - most_begun;
  std::string given = held_.substr(0, sure);
  held_.erase(0, over_ ? held_.size() : sure);
  return given;
}

std::string StopSequences::end() {
  return std::exchange(held_, {});
}

}  // namespace gpunode::inference
