// What a model is that is served, down to the last byte: what it is made by, its weights' image
// (weight_image.hpp) and the small files that say how it reads and writes, these as the SHA-256 of each
// piece of them. The digest over all of that names the model: nodes that serve one digest answer alike,
// and whoever knows the content can take the bytes from strangers, each piece checked by itself. Pure but
// for the threads that hash.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/model/model.hpp"
#include "kernels/ops/weight_format.hpp"
#include "runtime/storage/checksum.hpp"

namespace gpunode::checkpoint {

struct TextFile {
  std::string name;  // within the model's folder
  std::string bytes;

  bool operator==(const TextFile&) const = default;
};

struct ModelContent {
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;  // a last one is what is left
  struct Text {
    std::string name;
    std::uint64_t bytes = 0;

    bool operator==(const Text&) const = default;
  };

  std::string kind;          // makes the model, with
  model::Settings settings;  // (kernels/model/registry.hpp)
  ops::WeightFormat format = ops::WeightFormat::fp32;
  std::uint64_t step = 0;  // of a checkpoint; else 0
  std::uint64_t image_bytes = 0;
  std::vector<Text> texts;
  std::vector<storage::Sha256> pieces;  // of the image, then of the texts, which are joined

  bool operator==(const ModelContent&) const = default;
  std::uint64_t text_bytes() const;
  std::size_t image_pieces() const { return pieces_of(image_bytes); }
  std::size_t text_pieces() const { return pieces_of(text_bytes()); }
  // Where the piece begins, in the image or in the joined texts, and how many bytes it has.
  std::uint64_t piece_first(std::size_t piece) const;
  std::size_t piece_bytes(std::size_t piece) const;
  // Of everything; of the image alone.
  storage::Sha256 digest() const;
  storage::Sha256 image_digest() const;

 private:
  static std::size_t pieces_of(std::uint64_t bytes) {
    return static_cast<std::size_t>((bytes + kPieceBytes - 1) / kPieceBytes);
  }
};

// The texts' bytes, one behind the other; and the texts that these are. Fails with: corrupted (not as many
// bytes as the content says).
std::string joined(const std::vector<TextFile>& texts);
Result<std::vector<TextFile>> texts_in(const ModelContent& content, std::string_view joined);

// The pieces of an image of which no more than one part is kept: of its bytes as they come, from the first
// on. What is left out between them is zeros.
class ImagePieces {
 public:
  // Where it begins in the image; not before the end of what came last.
  void add(std::uint64_t first, ByteView bytes);
  // Of an image of so many bytes.
  std::vector<storage::Sha256> finish(std::uint64_t image_bytes);

 private:
  void go_on(ByteView bytes);
  void go_to(std::uint64_t first);

  std::uint64_t at_ = 0;
  storage::Sha256Stream piece_;  // the one that `at_` lies in
  std::vector<storage::Sha256> done_;
};

// Fills in texts, image_bytes and pieces, where those of the image are known.
void describe_pieces(ModelContent& content, const std::vector<TextFile>& texts,
                     std::uint64_t image_bytes, std::vector<storage::Sha256> image_pieces);
// Fills in texts, image_bytes and pieces. Costs a pass over the image, by as many threads as there are
// cores, four at most.
void describe_bytes(ModelContent& content, const std::vector<TextFile>& texts, ByteView image);

}  // namespace gpunode::checkpoint
