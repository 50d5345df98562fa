// Texts that come to this node piece by piece while some node generates them. The answer at the end has
// the whole text, so a piece that is lost costs time and nothing else; and as the same request gives
// the same text, another replica that takes over goes on without a seam. Whoever takes the pieces
// must be quick. Any thread.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <string_view>

#include "actors/inference/generate_codec.hpp"

namespace gpunode::inference {

class TextStreams {
 public:
  // Told what is new; whether more is wanted.
  using Taker = std::function<bool(const TextPiece& piece)>;

  // Its number, which nobody can guess who has not been told it. is_shown: what came has been shown to somebody,
  // so another text than that fails; else it takes its place.
  std::uint64_t open(Taker take, bool is_shown = true);
  // Fails with: not_found (nobody wants more of it), wrong_state (it is not the text that came before).
  Result<void> on_piece(const GeneratePiece& piece);
  // The text is whole: hands over what has not come, and forgets it. Fails with: wrong_state.
  Result<void> close(std::uint64_t stream, const TextPiece& whole);
  void close(std::uint64_t stream);

 private:
  struct Stream {
    Taker take;
    bool is_shown = true;
    std::string text;         // that has come
    std::size_t reports = 0;  // of so many tokens
  };
  static Result<void> extend(Stream& stream, std::uint64_t offset, std::uint64_t first_report,
                             const TextPiece& piece);

  std::mutex mutex_;
  std::random_device random_;
  std::map<std::uint64_t, Stream> streams_;
};

}  // namespace gpunode::inference
