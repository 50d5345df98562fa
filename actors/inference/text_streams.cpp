#include "actors/inference/text_streams.hpp"

#include <algorithm>

namespace gpunode::inference {

std::uint64_t TextStreams::open(Taker take, bool is_shown) {
  std::lock_guard lock(mutex_);
  std::uint64_t number = 0;
  while (number == 0 || streams_.contains(number))
    number = std::uint64_t{random_()} << 32 | random_();
  streams_[number] = {.take = std::move(take), .is_shown = is_shown, .text = {}};
  return number;
}

Result<void> TextStreams::extend(Stream& stream, std::uint64_t offset, std::uint64_t first_report,
                                 const TextPiece& piece) {
  // One before it is lost, or comes late.
  if (offset > stream.text.size() || first_report > stream.reports) return {};
  const std::string_view text = piece.text;
  std::size_t known = std::min(stream.text.size() - offset, text.size());
  if (std::string_view(stream.text).substr(offset, known) != text.substr(0, known)) {
    if (stream.is_shown)
      return {ErrorCode::wrong_state,
              "the replica that went on generates another text than the one before it"};
    stream.text.resize(offset);
    known = 0;
  }
  const std::string_view more = text.substr(known);
  const auto reports =
      piece.reports.subspan(std::min(stream.reports - first_report, piece.reports.size()));
  if (more.empty() && reports.empty()) return {};
  stream.text += more;
  stream.reports += reports.size();
  if (stream.take({more, reports})) return {};
  return {ErrorCode::not_found, "nobody waits for more of this text"};
}

Result<void> TextStreams::on_piece(const GeneratePiece& piece) {
  std::lock_guard lock(mutex_);
  const auto found = streams_.find(piece.stream);
  if (found == streams_.end()) return {ErrorCode::not_found, "nobody waits for more of this text"};
  auto done = extend(found->second, piece.offset, piece.first_report, {piece.text, piece.reports});
  if (!done && done.error().code == ErrorCode::not_found) streams_.erase(found);
  return done;
}

Result<void> TextStreams::close(std::uint64_t stream, const TextPiece& whole) {
  std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return {};
  auto done = extend(found->second, 0, 0, whole);
  streams_.erase(found);
  if (!done && done.error().code == ErrorCode::not_found) return {};
  return done;
}

void TextStreams::close(std::uint64_t stream) {
  std::lock_guard lock(mutex_);
  streams_.erase(stream);
}

}  // namespace gpunode::inference
