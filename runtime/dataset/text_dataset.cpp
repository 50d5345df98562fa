#include "runtime/dataset/text_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/base/check.hpp"
#include "runtime/dataset/held_out.hpp"

namespace gpunode::dataset {
namespace {

constexpr std::uint64_t kLeastBlock = 4096, kWindowsInBlock = 16, kMostBlocks = 65536;

std::uint64_t block_bytes_for(std::uint64_t size, std::uint64_t window) {
  const std::uint64_t share = (size + kMostBlocks - 1) / kMostBlocks;
  const std::uint64_t wanted = std::max(kWindowsInBlock * window, share);
  return std::max<std::uint64_t>(1, (wanted + kLeastBlock - 1) / kLeastBlock) * kLeastBlock;
}

}  // namespace

Result<std::shared_ptr<const TextDataset>> TextDataset::create(
    std::shared_ptr<const TextSource> source, TextSettings settings) {
  GPUNODE_CHECK(source != nullptr, "a data set without a source");
  if (settings.context == 0 || settings.context > (1u << 24))
    return Error{ErrorCode::invalid_argument, "data: context must be 1 to 16777216 bytes"};
  if (settings.stride == 0)
    return Error{ErrorCode::invalid_argument, "data: stride must be at least 1"};
  if (!(settings.validation_fraction >= 0.0 && settings.validation_fraction < 1.0))
    return Error{ErrorCode::invalid_argument, "data: validation_fraction must be in [0, 1)"};
  const std::uint64_t size = source->size_bytes();
  std::shared_ptr<const TextDataset> made(new TextDataset(std::move(source), settings));
  if (made->sample_count() > 0) return made;
  return Error{ErrorCode::invalid_argument,
               "data: of " + std::to_string(size) + " bytes, " +
                   std::to_string(settings.validation_fraction) +
                   " of them held out, none are left for one sample of " +
                   std::to_string(made->window_bytes()) + ": give more text or a smaller context"};
}

TextDataset::TextDataset(std::shared_ptr<const TextSource> source, TextSettings settings)
    : Dataset(std::move(source), {{"text", SampleDtype::u8, settings.context + 1}}),
      settings_(settings) {
  const std::uint64_t size = this->source().size_bytes();
  train_.stride = settings.stride;
  held_out_.stride = settings.context;
  block_bytes_ = block_bytes_for(size, window_bytes());
  const std::uint64_t blocks = (size + block_bytes_ - 1) / block_bytes_;
  if (blocks < 2) {
    const double kept = static_cast<double>(size) * (1.0 - settings.validation_fraction);
    const std::uint64_t end = std::min(size, static_cast<std::uint64_t>(std::floor(kept)));
    add_run(0, end, train_);
    add_run(end, size, held_out_);
    return;
  }
  const std::vector<bool> held = draw_held_out(blocks, settings.validation_fraction);
  for (std::uint64_t first = 0, next; first < blocks; first = next) {
    for (next = first + 1; next < blocks && held[next] == held[first]; ++next) {
    }
    add_run(first * block_bytes_, std::min(size, next * block_bytes_),
            held[first] ? held_out_ : train_);
  }
}

void TextDataset::add_run(std::uint64_t begin, std::uint64_t end, Windows& windows) const {
  const std::uint64_t size = end - begin, window = window_bytes();
  if (size < window) return;
  windows.runs.push_back({begin, windows.count});
  windows.count += (size - window) / windows.stride + 1;
}

void TextDataset::read(const Windows& windows, std::uint64_t index, MutableByteView target) const {
  GPUNODE_CHECK(index < windows.count && target.size() == window_bytes(),
                "window " + std::to_string(index) + " of " + std::to_string(windows.count));
  const auto after = std::ranges::upper_bound(windows.runs, index, {}, &Run::first_window);
  const Run& run = *std::prev(after);
  source().copy(run.begin + (index - run.first_window) * windows.stride, target);
}

void TextDataset::read_sample(std::uint64_t index, MutableByteView target) const {
  read(train_, index, target);
}

void TextDataset::read_held_out(std::uint64_t index, MutableByteView target) const {
  read(held_out_, index, target);
}

}  // namespace gpunode::dataset
