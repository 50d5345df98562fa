#include "runtime/dataset/text_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "runtime/base/check.hpp"
#include "runtime/dataset/held_out.hpp"

namespace gpunode::dataset {
namespace {

constexpr std::uint64_t kLeastBlock = 4096, kWindowsInBlock = 16, kMostBlocks = 65536;

std::uint64_t block_size_for(std::uint64_t size, std::uint64_t window) {
  const std::uint64_t share = (size + kMostBlocks - 1) / kMostBlocks;
  const std::uint64_t wanted = std::max(kWindowsInBlock * window, share);
  return std::max<std::uint64_t>(1, (wanted + kLeastBlock - 1) / kLeastBlock) * kLeastBlock;
}

std::uint32_t token_at(ByteView bytes, std::size_t at, std::size_t width) {
  std::uint32_t token = 0;  // little-endian, as all machines that this runs on
  std::memcpy(&token, bytes.data() + at * width, width);
  return token;
}

Result<void> check_tokens(const TextSource& source, const TextSettings& settings) {
  const std::size_t width = settings.token_bytes;
  for (const TextSource::File& file : source.files()) {
    const auto refused = [&](const std::string& what) {
      return Error{ErrorCode::invalid_argument,
                   "data: " + (file.name.empty() ? "the file" : file.name) + " " + what};
    };
    if (file.size_bytes % width != 0)
      return refused("has " + std::to_string(file.size_bytes) +
                     " bytes and ends inside a token of " + std::to_string(width));
    std::uint64_t before = 0;
    std::optional<Error> wrong;
    file.stream([&](ByteView piece) {
      for (std::size_t at = 0; at < piece.size() / width && !wrong; ++at)
        if (const std::uint32_t token = token_at(piece, at, width); token >= settings.vocabulary)
          wrong = refused("holds token " + std::to_string(token) + " at position " +
                          std::to_string(before + at) + ", but the model's vocabulary is " +
                          std::to_string(settings.vocabulary) +
                          ": raise it, or check data.token_bytes");
      before += piece.size() / width;
    });
    if (wrong) return *wrong;
  }
  return {};
}

SampleField field_of(const TextSettings& settings) {
  if (settings.token_bytes == 1) return {"text", SampleDtype::u8, settings.context + 1};
  return {"tokens", SampleDtype::i32, settings.context + 1};
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
  if (settings.token_bytes != 1 && settings.token_bytes != 2 && settings.token_bytes != 4)
    return Error{ErrorCode::invalid_argument, "data: token_bytes must be 2 or 4"};
  if (settings.token_bytes != 1)
    if (auto good = check_tokens(*source, settings); !good) return good.error();
  const std::uint64_t size = source->size_bytes() / settings.token_bytes;
  std::shared_ptr<const TextDataset> made(new TextDataset(std::move(source), settings));
  if (made->sample_count() > 0) return made;
  return Error{ErrorCode::invalid_argument,
               "data: of " + std::to_string(size) +
                   (settings.token_bytes == 1 ? " bytes, " : " tokens, ") +
                   std::to_string(settings.validation_fraction) +
                   " of them held out, none are left for one sample of " +
                   std::to_string(made->window_tokens()) + ": give more data or a smaller context"};
}

TextDataset::TextDataset(std::shared_ptr<const TextSource> source, TextSettings settings)
    : Dataset(std::move(source), {field_of(settings)}), settings_(settings) {
  const std::uint64_t size = this->source().size_bytes() / settings.token_bytes;
  train_.stride = settings.stride;
  held_out_.stride = settings.context;
  block_tokens_ = block_size_for(size, window_tokens());
  const std::uint64_t blocks = (size + block_tokens_ - 1) / block_tokens_;
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
    add_run(first * block_tokens_, std::min(size, next * block_tokens_),
            held[first] ? held_out_ : train_);
  }
}

void TextDataset::add_run(std::uint64_t begin, std::uint64_t end, Windows& windows) const {
  const std::uint64_t size = end - begin, window = window_tokens();
  if (size < window) return;
  windows.runs.push_back({begin, windows.count});
  windows.count += (size - window) / windows.stride + 1;
}

void TextDataset::read(const Windows& windows, std::uint64_t index, MutableByteView target) const {
  GPUNODE_CHECK(index < windows.count && target.size() == sample_bytes(),
                "window " + std::to_string(index) + " of " + std::to_string(windows.count));
  const auto after = std::ranges::upper_bound(windows.runs, index, {}, &Run::first_window);
  const Run& run = *std::prev(after);
  const std::uint64_t first = run.begin + (index - run.first_window) * windows.stride;
  const std::size_t width = settings_.token_bytes, stored = window_tokens() * width;
  const MutableByteView raw = target.last(stored);
  source().copy(first * width, raw);
  if (width != 2) return;
  // Each number goes to where only those before it have lain.
  for (std::size_t at = 0; at < window_tokens(); ++at) {
    const std::uint32_t token = token_at(raw, at, width);
    std::memcpy(target.data() + at * sizeof token, &token, sizeof token);
  }
}

void TextDataset::read_sample(std::uint64_t index, MutableByteView target) const {
  read(train_, index, target);
}

void TextDataset::read_held_out(std::uint64_t index, MutableByteView target) const {
  read(held_out_, index, target);
}

}  // namespace gpunode::dataset
