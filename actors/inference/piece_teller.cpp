#include "actors/inference/piece_teller.hpp"

#include <utility>

namespace gpunode::inference {

bool PieceTeller::add(const TextPiece& more) {
  waiting_ += more.text;
  waiting_reports_.insert(waiting_reports_.end(), more.reports.begin(), more.reports.end());
  if (waiting_.empty() || state_->on_its_way.exchange(true)) return !state_->unwanted;
  GeneratePiece piece{stream_, told_, std::exchange(waiting_, {}), told_reports_,
                      std::exchange(waiting_reports_, {})};
  told_ += piece.text.size();
  told_reports_ += piece.reports.size();
  send_(std::move(piece), [state = state_](const Result<void>& arrived) {
    // Of one that was lost otherwise nobody knows: the answer will tell.
    if (!arrived && arrived.error().code == ErrorCode::not_found) state->unwanted = true;
    state->on_its_way = false;
  });
  return !state_->unwanted;
}

}  // namespace gpunode::inference
