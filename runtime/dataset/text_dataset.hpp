// Training samples and held-out ones of a text source, or of one that holds token ids as whole numbers
// of two or four bytes, little-endian: "byte" below then means token.
// A sample is a window of context + 1 bytes (inputs and targets, shifted by one). Windows begin at
// every stride-th byte of each run of text that is trained on. Stride 1, the default, makes every
// alignment of the text a sample of its own: 2000 steps of 12 windows over 1 MB then see 24 000
// different windows without repetition, as drawing offsets at random would, and an epoch has as
// many samples as the text has bytes. Stride = context would make each byte a target once an epoch,
// 15 000 windows in all, which come round again after 1300 such steps with the same cuts, and a
// model learns the cuts. Raise it where an "epoch" should mean one reading of the text.
// What is held out are whole blocks of the text, drawn over all of it (held_out.hpp); a block has at
// least 4096 bytes and sixteen windows, and there are at most 65536. No training window touches one.
// Text of a single block has its end held out.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/dataset/dataset.hpp"

namespace gpunode::dataset {

struct TextSettings {
  std::uint32_t context = 64;        // bytes a model sees; a sample has one more
  std::uint32_t stride = 1;          // bytes from one sample's start to the next one's
  double validation_fraction = 0.1;  // in [0, 1): the share of blocks that is held out
  // 1: bytes of text, field "text" u8. 2, 4: token ids of so many bytes, field "tokens" i32.
  std::uint32_t token_bytes = 1;
  std::uint32_t vocabulary = 256;  // every token id is below it
};

class TextDataset final : public Dataset {
 public:
  // Reads all tokens once. Fails with invalid_argument: settings out of range, too little data for
  // one window, a file that ends inside a token, a token outside the vocabulary (file and place).
  static Result<std::shared_ptr<const TextDataset>> create(std::shared_ptr<const TextSource> source,
                                                           TextSettings settings);

  std::uint32_t window_tokens() const { return settings_.context + 1; }
  std::uint64_t block_tokens() const { return block_tokens_; }

  std::uint64_t sample_count() const override { return train_.count; }
  void read_sample(std::uint64_t index, MutableByteView target) const override;
  // Windows of the held-out runs whose targets are disjoint: window j of a run begins at its byte
  // j * context.
  std::uint64_t held_out_count() const override { return held_out_.count; }
  void read_held_out(std::uint64_t index, MutableByteView target) const override;

 private:
  // Consecutive tokens, and the number of the first window in them.
  struct Run {
    std::uint64_t begin, first_window;
  };
  struct Windows {
    std::vector<Run> runs;
    std::uint64_t count = 0, stride = 1;
  };
  TextDataset(std::shared_ptr<const TextSource> source, TextSettings settings);
  void add_run(std::uint64_t begin, std::uint64_t end, Windows& windows) const;
  void read(const Windows& windows, std::uint64_t index, MutableByteView target) const;

  TextSettings settings_;
  std::uint64_t block_tokens_ = 0;
  Windows train_, held_out_;
};

}  // namespace gpunode::dataset
