// Training samples and the held-out part of a text source.
// Sample i is the window of context + 1 bytes (inputs and targets, shifted by one) that begins at
// byte i * stride of the training part. Stride 1, the default, makes every alignment of the text a
// sample of its own: 2000 steps of 12 windows over 1 MB then see 24 000 different windows without
// repetition, as drawing offsets at random would, and an epoch has as many samples as the text has
// bytes. Stride = context would make each byte a target once an epoch, 15 000 windows in all, which
// come round again after 1300 such steps with the same cuts, and a model learns the cuts. Raise it
// where an "epoch" should mean one reading of the text.
// The held-out part is the last validation_fraction of the bytes; no training window touches it.
// Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"
#include "runtime/dataset/text_source.hpp"

namespace gpunode::dataset {

struct TextSettings {
  std::uint32_t context = 64;        // bytes a model sees; a sample has one more
  std::uint32_t stride = 1;          // bytes from one sample's start to the next one's
  double validation_fraction = 0.1;  // in [0, 1): the end of the data, held out
};

class TextDataset {
 public:
  // Fails with invalid_argument: settings out of range, or too little data for one window.
  static Result<TextDataset> create(std::shared_ptr<const TextSource> source,
                                    TextSettings settings);

  std::uint64_t sample_count() const { return sample_count_; }
  std::uint32_t window_bytes() const { return settings_.context + 1; }
  std::uint64_t train_bytes() const { return train_bytes_; }
  const TextSettings& settings() const { return settings_; }
  const TextSource& source() const { return *source_; }

  // Copies sample `index` < sample_count(); target.size() == window_bytes().
  void read_sample(std::uint64_t index, MutableByteView target) const;

  // The held-out part in windows whose targets are disjoint and together are all of its bytes but
  // the first: window j starts at its byte j * context. The last may be shorter (at least 2 bytes).
  std::uint64_t held_out_bytes() const { return source_->size_bytes() - train_bytes_; }
  std::uint64_t held_out_windows() const;
  // Those of window_bytes(): all but a last shorter one.
  std::uint64_t full_held_out_windows() const;
  Bytes held_out_window(std::uint64_t window) const;

 private:
  TextDataset(std::shared_ptr<const TextSource> source, TextSettings settings,
              std::uint64_t train_bytes, std::uint64_t sample_count);

  std::shared_ptr<const TextSource> source_;
  TextSettings settings_;
  std::uint64_t train_bytes_;
  std::uint64_t sample_count_;
};

}  // namespace gpunode::dataset
