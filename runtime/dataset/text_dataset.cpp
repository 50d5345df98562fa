#include "runtime/dataset/text_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/base/check.hpp"

namespace gpunode::dataset {

Result<TextDataset> TextDataset::create(std::shared_ptr<const TextSource> source,
                                        TextSettings settings) {
  GPUNODE_CHECK(source != nullptr, "a data set without a source");
  if (settings.context == 0 || settings.context > (1u << 24))
    return Error{ErrorCode::invalid_argument, "data: context must be 1 to 16777216 bytes"};
  if (settings.stride == 0)
    return Error{ErrorCode::invalid_argument, "data: stride must be at least 1"};
  if (!(settings.validation_fraction >= 0.0 && settings.validation_fraction < 1.0))
    return Error{ErrorCode::invalid_argument, "data: validation_fraction must be in [0, 1)"};
  std::uint64_t size = source->size_bytes();
  auto train_bytes = std::min<std::uint64_t>(
      size, static_cast<std::uint64_t>(
                std::floor(static_cast<double>(size) * (1.0 - settings.validation_fraction))));
  std::uint64_t window = std::uint64_t{settings.context} + 1;
  if (train_bytes < window)
    return Error{ErrorCode::invalid_argument, "data: " + std::to_string(train_bytes) +
                                                  " bytes to train on are fewer than one "
                                                  "sample of " +
                                                  std::to_string(window) +
                                                  ": give more text or a smaller context"};
  std::uint64_t samples = (train_bytes - window) / settings.stride + 1;
  return TextDataset(std::move(source), settings, train_bytes, samples);
}

TextDataset::TextDataset(std::shared_ptr<const TextSource> source, TextSettings settings,
                         std::uint64_t train_bytes, std::uint64_t sample_count)
    : source_(std::move(source)),
      settings_(settings),
      train_bytes_(train_bytes),
      sample_count_(sample_count) {}

void TextDataset::read_sample(std::uint64_t index, MutableByteView target) const {
  GPUNODE_CHECK(index < sample_count_ && target.size() == window_bytes(),
                "sample " + std::to_string(index) + " of " + std::to_string(sample_count_));
  source_->copy(index * settings_.stride, target);
}

std::uint64_t TextDataset::held_out_windows() const {
  std::uint64_t size = held_out_bytes();
  return size < 2 ? 0 : (size - 1 + settings_.context - 1) / settings_.context;
}

std::uint64_t TextDataset::full_held_out_windows() const {
  std::uint64_t size = held_out_bytes();
  return size < 2 ? 0 : (size - 1) / settings_.context;
}

Bytes TextDataset::held_out_window(std::uint64_t window) const {
  GPUNODE_CHECK(window < held_out_windows(), "held-out window " + std::to_string(window));
  std::uint64_t begin = window * settings_.context;
  Bytes bytes(std::min<std::uint64_t>(window_bytes(), held_out_bytes() - begin));
  source_->copy(train_bytes_ + begin, bytes);
  return bytes;
}

}  // namespace gpunode::dataset
