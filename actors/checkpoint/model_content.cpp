#include "actors/checkpoint/model_content.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <utility>

#include "runtime/base/check.hpp"

namespace gpunode::checkpoint {
namespace {

constexpr std::size_t kMostThreads = 4;

// Every field behind its length, so that no two contents give the same bytes.
class Fields {
 public:
  void add(std::uint64_t number) {
    Bytes bytes;
    append_number(bytes, number);
    hash_.add(bytes);
  }
  void add(std::string_view text) {
    add(text.size());
    hash_.add(as_bytes(text));
  }
  void add(std::span<const storage::Sha256> digests) {
    add(digests.size());
    for (const storage::Sha256& one : digests) hash_.add(one.value);
  }
  storage::Sha256 finish() { return hash_.finish(); }

 private:
  storage::Sha256Stream hash_;
};

std::vector<storage::Sha256> digests_of(ByteView bytes) {
  constexpr std::size_t kBytes = ModelContent::kPieceBytes;
  std::vector<storage::Sha256> digests((bytes.size() + kBytes - 1) / kBytes);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t at = next++; at < digests.size(); at = next++) {
      const ByteView piece = bytes.subspan(at * kBytes);
      digests[at] = storage::sha256_of(piece.first(std::min(kBytes, piece.size())));
    }
  };
  const std::size_t threads = std::min<std::size_t>(
      {kMostThreads, digests.size(), std::max(1u, std::thread::hardware_concurrency())});
  std::vector<std::jthread> helpers;
  for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  return digests;
}

}  // namespace

std::uint64_t ModelContent::text_bytes() const {
  std::uint64_t bytes = 0;
  for (const Text& one : texts) bytes += one.bytes;
  return bytes;
}

std::uint64_t ModelContent::piece_first(std::size_t piece) const {
  return (piece < image_pieces() ? piece : piece - image_pieces()) * kPieceBytes;
}

std::size_t ModelContent::piece_bytes(std::size_t piece) const {
  const std::uint64_t all = piece < image_pieces() ? image_bytes : text_bytes();
  const std::uint64_t first = std::min(all, piece_first(piece));
  return static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, all - first));
}

storage::Sha256 ModelContent::digest() const {
  Fields all;
  all.add("gpunode model 1");
  all.add(kind);
  all.add(settings.size());
  for (const auto& [key, value] : settings) {
    all.add(key);
    all.add(value);
  }
  all.add(ops::to_string(format));
  all.add(step);
  all.add(image_bytes);
  all.add(texts.size());
  for (const Text& one : texts) {
    all.add(one.name);
    all.add(one.bytes);
  }
  all.add(pieces);
  return all.finish();
}

storage::Sha256 ModelContent::image_digest() const {
  Fields all;
  all.add(image_bytes);
  all.add(std::span(pieces).first(image_pieces()));
  return all.finish();
}

std::string joined(const std::vector<TextFile>& texts) {
  std::string all;
  for (const TextFile& one : texts) all += one.bytes;
  return all;
}

Result<std::vector<TextFile>> texts_in(const ModelContent& content, std::string_view joined) {
  if (joined.size() != content.text_bytes())
    return Error{ErrorCode::corrupted, "the model's texts have " + std::to_string(joined.size()) +
                                           " bytes, and its content names " +
                                           std::to_string(content.text_bytes())};
  std::vector<TextFile> texts;
  for (const ModelContent::Text& one : content.texts) {
    texts.push_back({one.name, std::string(joined.substr(0, one.bytes))});
    joined.remove_prefix(one.bytes);
  }
  return texts;
}

void ImagePieces::go_on(ByteView bytes) {
  while (!bytes.empty()) {
    const std::size_t room = ModelContent::kPieceBytes - at_ % ModelContent::kPieceBytes;
    const ByteView now = bytes.first(std::min(room, bytes.size()));
    piece_.add(now);
    at_ += now.size();
    bytes = bytes.subspan(now.size());
    if (at_ % ModelContent::kPieceBytes == 0)
      done_.push_back(std::exchange(piece_, storage::Sha256Stream()).finish());
  }
}

void ImagePieces::go_to(std::uint64_t first) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  GPUNODE_CHECK(first >= at_, "an image's bytes come in their order");
  while (at_ < first)
    go_on(ByteView(kZeros).first(std::min<std::uint64_t>(kZeros.size(), first - at_)));
}

void ImagePieces::add(std::uint64_t first, ByteView bytes) {
  go_to(first);
  go_on(bytes);
}

std::vector<storage::Sha256> ImagePieces::finish(std::uint64_t image_bytes) {
  go_to(image_bytes);
  if (at_ % ModelContent::kPieceBytes != 0) done_.push_back(piece_.finish());
  return std::move(done_);
}

void describe_pieces(ModelContent& content, const std::vector<TextFile>& texts,
                     std::uint64_t image_bytes, std::vector<storage::Sha256> image_pieces) {
  content.texts.clear();
  for (const TextFile& one : texts) content.texts.push_back({one.name, one.bytes.size()});
  content.image_bytes = image_bytes;
  content.pieces = std::move(image_pieces);
  const std::vector<storage::Sha256> of_texts = digests_of(as_bytes(joined(texts)));
  content.pieces.insert(content.pieces.end(), of_texts.begin(), of_texts.end());
}

void describe_bytes(ModelContent& content, const std::vector<TextFile>& texts, ByteView image) {
  describe_pieces(content, texts, image.size(), digests_of(image));
}

}  // namespace gpunode::checkpoint
