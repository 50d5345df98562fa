#include "actors/inference/piece_teller.hpp"

#include <utility>

namespace gpunode::inference {

bool PieceTeller::add(std::string_view text) {
  waiting_ += text;
  if (waiting_.empty() || state_->on_its_way.exchange(true)) return !state_->unwanted;
  GeneratePiece piece{stream_, told_, std::exchange(waiting_, {})};
  told_ += piece.text.size();
  send_(std::move(piece), [state = state_](const Result<void>& arrived) {
    // Of one that was lost otherwise nobody knows: the answer will tell.
    if (!arrived && arrived.error().code == ErrorCode::not_found) state->unwanted = true;
    state->on_its_way = false;
  });
  return !state_->unwanted;
}

}  // namespace gpunode::inference
