// How a quorum of the acceptors comes to note the newest durable checkpoint, below which no later
// view goes.
#include "runtime/base/broken_rule.hpp"
#include "runtime/view/view_agreement.hpp"

namespace gpunode::view {

void ViewAgreement::note_floor(Time now, Floor floor, Effects& out) {
  if (noting_ && floor.name <= noting_->floor.name) return;
  noting_ = Noting{std::move(floor), {}, {}};
  ask_to_note(now, out);
}

void ViewAgreement::ask_to_note(Time now, Effects& out) {
  noting_->asked = now;
  const NoteFloor note{noting_->floor};
  for (const NodeId& acceptor : votes_.view.acceptors)
    if (!noting_->noted_by.contains(acceptor) && acceptor != options_.self)
      out.sends.emplace_back(acceptor, note);
  if (is_acceptor() && !noting_->noted_by.contains(options_.self))
    on_note(now, options_.self, note, out);
}

// A floor noted after a promise could stay unknown to the proposer that was promised.
void ViewAgreement::on_note(Time now, const NodeId& from, const NoteFloor& message, Effects& out) {
  const bool promised = frozen_ && !broken("note_after_promise");
  if (!is_acceptor() || promised) return;
  const CheckpointName& name = message.floor.name;
  if (!votes_.view.rank_of(from) || !votes_.view.descends_from(name.history, name.step)) return;
  if (name > votes_.floor.name) votes_.floor = message.floor;
  if (name < votes_.floor.name) return;
  persist_then(from, FloorNoted{name}, now, out);
}

void ViewAgreement::on_noted(const NodeId& from, const FloorNoted& message, Effects& out) {
  if (!noting_ || !votes_.view.is_acceptor(from) || message.name != noting_->floor.name) return;
  noting_->noted_by.insert(from);
  const std::vector<NodeId> yes(noting_->noted_by.begin(), noting_->noted_by.end());
  if (!quorum(yes)) return;
  out.noted = std::move(noting_->floor);
  noting_.reset();
}

}  // namespace gpunode::view
