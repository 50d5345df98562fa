// A decoder in parts, which lie on different devices, or nodes: each has some of the model's stages, the
// weights that these read, and the cache of their attention. A pass goes through them in order; what goes
// on from one to the next are the rows as the first one laid them out, and the numbers that it made of
// each. The bits are those of one decoder with all stages.
//   ModelPart     which stages, and where their weights lie (Model::parts)
//   DecoderPart   one of them, ready on a device (Program::part)
//   PartsBehind   those behind the first, wherever they are
//   decoder_of    the decoder that they are together
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/model/decoder.hpp"
#include "kernels/model/weight_layout.hpp"

namespace gpunode::model {

struct ModelPart {
  std::size_t first_stage = 0, end_stage = 0;  // of the forward pass, as its builder paused
  std::size_t takes =
      0;  // numbers of a row, of the part before it; 0: it is the first, and takes tokens
  std::size_t gives = 0;  // the same, to the part behind it; 0: it is the last, and gives scores
  std::uint64_t page_bytes = 0;  // of its cache, each page
  WeightLayout layout;           // of its own image; parameters of other parts have no bytes in it

  bool is_first() const { return takes == 0; }
  bool is_last() const { return gives == 0; }
};

// How a decoder is laid out, in all its parts alike.
struct DecoderExtents {
  std::size_t texts = 0, rows = 0, pages = 0;  // in a pass, in a pass, in all

  bool operator==(const DecoderExtents&) const = default;
};

// A pass, row by row.
struct PassRows {
  std::vector<Token> tokens;            // of the first part alone
  std::vector<std::int32_t> positions;  // of each row in its text
  std::vector<std::int32_t> texts;      // which of the pass's it is of
  std::vector<std::int32_t> pages;   // of each text that a pass may have as many as a full one has
  std::vector<std::int32_t> chosen;  // rows that are scored
};

class DecoderPart {
 public:
  virtual ~DecoderPart() = default;

  virtual const ModelPart& is() const = 0;
  virtual std::size_t context() const = 0;  // positions that a text may have
  virtual std::size_t page() const = 0;     // positions of a page
  std::size_t pages_of_text() const { return (context() + page() - 1) / page(); }
  virtual DecoderExtents extents() const = 0;
  virtual std::size_t vocabulary() const = 0;

  // `in`: is().takes numbers a row; `out`: is().gives a row, or, of the last, the vocabulary's scores a
  // chosen row. Thread: one at a time. Fails with: what check_rows() fails with, device_lost, internal.
  // After a failure: the rows' positions are unspecified, others are as they were.
  virtual Result<void> run(const PassRows& rows, std::span<const float> in,
                           std::span<float> out) = 0;
};

// What no part takes, whoever asks. Fails with: invalid_argument (no rows, or more than extents; a token, a
// position, a text, a page or a chosen row that does not exist; room of the wrong size; a number that is
// not finite).
Result<void> check_rows(const DecoderPart& part, const PassRows& rows, std::span<const float> in,
                        std::size_t out);

class PartsBehind {
 public:
  virtual ~PartsBehind() = default;

  // As Decoder::ready.
  virtual Result<std::uint64_t> ready() = 0;
  // `in`: what the first part gave; `scores`: of the chosen rows. Fails with: unavailable (a part cannot be
  // reached; which), and what DecoderPart::run fails with. After a failure with unavailable: the pages of
  // all texts are gone.
  virtual Result<void> run(const PassRows& rows, std::span<const float> in,
                           std::span<float> scores) = 0;
};

// `behind` is null just where `first` is all of the model.
std::unique_ptr<Decoder> decoder_of(std::unique_ptr<DecoderPart> first,
                                    std::unique_ptr<PartsBehind> behind);

}  // namespace gpunode::model
