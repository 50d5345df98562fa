// Texts being continued with one program, any number of them in a pass, whose keys and values lie in
// pages of one cache. Which page belongs to which text is the caller's affair: it hands them out,
// takes them back, and may let texts with the same beginning share the pages of that. What is read
// of one text does not depend on what stands beside it in the pass, nor on how its tokens are
// divided among passes: on the CPU to the bit.
//   Decoder         what a program gives to whoever serves it (Program::decoder)
//   session_of      one text over a decoder of its own
//   sessions_as     a decoder over programs that know sessions alone: a page is a whole text there
#pragma once

#include <memory>
#include <span>

#include "kernels/model/model.hpp"

namespace gpunode::model {

struct DecoderOptions {
  std::size_t texts = 1;      // in a pass, at most, and as many scored tokens
  std::size_t rows = 0;       // tokens in a pass, at most; 0: as many as a text may have
  std::size_t positions = 0;  // that the pages hold in all; 0: those of `texts` full texts
  // Of `positions` as many as this holds, but those of one full text; 0: all of them.
  std::uint64_t cache_bytes = 0;
  std::uint64_t page_bytes = 0;  // a page counts as no less: another part of the decoder takes that
  std::size_t pages = 0;         // just so many; 0: as those two say
  // To the bit on a device with memory of its own too, whose products are slower then.
  bool independent_rows = false;
};

// Some tokens of one text, to be read.
struct TextPart {
  std::span<const Token> tokens;        // one at least
  std::size_t position = 0;             // of the first of them in its text
  std::span<const std::int32_t> pages;  // of the text from its beginning, as far as the last token
  // So many of the last tokens: wanted are the scores of what comes after each of them. 0: of none.
  std::size_t scored = 1;
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  virtual std::size_t context() const = 0;  // positions that a text may have
  virtual std::size_t page() const = 0;     // positions of a page
  virtual std::size_t pages() const = 0;    // numbered from 0 on
  virtual std::size_t most_texts() const = 0;
  virtual std::size_t most_rows() const = 0;
  // Whether a text may step back: positions that were read are read again with other tokens; and whether
  // more than one token of a part may be scored.
  virtual bool steps_back() const { return false; }

  // To be called before a pass; a number that stays the same for as long as what the pages hold is kept: with
  // another one nothing of what was read is left, and all texts begin anew. Fails with: unavailable, of a
  // decoder in parts (decoder_part.hpp).
  virtual Result<std::uint64_t> ready() { return std::uint64_t{0}; }
  // Reads the parts, of different texts, and writes the scores of their tokens that are to be scored,
  // vocabulary values each, in their order. The positions before a part's first must have been read into
  // the same pages. Thread: one at a time. Fails with: invalid_argument (a token outside the vocabulary,
  // no tokens, more to be scored than there are, pages that are too few or do not exist, room of the wrong
  // size), resource_exhausted (beyond context, texts or rows), unsupported (several scored of a part, and
  // it does not step back), device_lost, internal, unavailable (a part elsewhere cannot be reached). After a
  // failure: the positions of the parts are unspecified, earlier ones are as they were unless ready() says
  // otherwise.
  virtual Result<void> read(std::span<const TextPart> parts, std::span<float> scores_out) = 0;
};

// What every decoder refuses; its vocabulary.
Result<void> check_parts(const Decoder& decoder, std::size_t vocabulary,
                         std::span<const TextPart> parts, std::size_t scores);

std::unique_ptr<Session> session_of(std::unique_ptr<Decoder> decoder);

// The program outlives it. Fails with: what Program::session fails with.
Result<std::unique_ptr<Decoder>> sessions_as_decoder(Program& program, std::size_t vocabulary,
                                                     const DecoderOptions& options);

}  // namespace gpunode::model
