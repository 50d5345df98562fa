#include "runtime/view/view.hpp"

#include <algorithm>
#include <utility>

#include "runtime/storage/strong_digest.hpp"
#include "runtime/view/detail/fold.hpp"

namespace gpunode::view {

using detail::Fold;

std::size_t View::list_bytes() const {
  return members.size() * sizeof(Member) +
         (acceptors.size() + sync_sources.size() + floor.holders.size() + put_out.size()) *
             sizeof(NodeId) +
         turns.size() * sizeof(Turn) + plan.size() * sizeof(std::uint16_t) +
         paces.size() * sizeof(std::uint64_t);
}

Digest View::digest() const {
  return storage::strong_digest_of(bytes());
}

Bytes View::bytes() const {
  Fold fold;
  fold.value(job);
  fold.value(view_id);
  fold.list(turns);
  fold.value(met);
  fold.value(met_step);
  fold.value(previous);
  fold.list(members);
  fold.list(acceptors);
  fold.value(tie);
  fold.value(base_step);
  fold.value(state_digest);
  fold.value(result_digest);
  fold.list(plan);
  fold.value(owner_rotation);
  fold.value(fingerprint);
  fold.value(static_cast<std::uint8_t>(restores));
  fold.value(disagreed_step);
  fold.list(sync_sources);
  fold.value(static_cast<std::uint8_t>(stopped));
  fold.value(order);
  fold.value(static_cast<std::uint8_t>(left_out));
  fold.list(paces);
  fold.value(floor);
  fold.list(put_out);
  return fold.result();
}

std::optional<std::uint16_t> View::rank_of(const NodeId& node) const {
  for (std::size_t rank = 0; rank < members.size(); ++rank)
    if (members[rank].node == node) return static_cast<std::uint16_t>(rank);
  return std::nullopt;
}

bool View::has_member(const Member& member) const {
  return std::find(members.begin(), members.end(), member) != members.end();
}

bool View::is_acceptor(const NodeId& node) const {
  return std::find(acceptors.begin(), acceptors.end(), node) != acceptors.end();
}

bool View::has_part(const NodeId& node) const {
  return is_acceptor(node) || rank_of(node);
}

bool View::gives(const NodeId& node) const {
  const auto names = [&node](const std::vector<NodeId>& nodes) {
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  };
  return names(sync_sources) || names(floor.holders);
}

bool View::is_witness(const NodeId& node) const {
  return view_id > 0 && is_acceptor(node) && !rank_of(node);
}

bool agree(const Digest& left, const Digest& right) {
  return left == right || left == Digest{} || right == Digest{};
}

bool is_quorum(std::span<const NodeId> acceptors, const NodeId& tie, std::span<const NodeId> yes) {
  std::size_t count = 0;
  bool with_tie = false;
  for (const NodeId& acceptor : acceptors) {
    if (std::find(yes.begin(), yes.end(), acceptor) == yes.end()) continue;
    ++count;
    with_tie = with_tie || acceptor == tie;
  }
  if (2 * count > acceptors.size()) return true;
  return count > 0 && 2 * count == acceptors.size() && with_tie;
}

bool is_quorum(const View& view, std::span<const NodeId> yes) {
  return is_quorum(view.acceptors, view.tie, yes);
}

bool needs_lease(const View& view) {
  std::vector<NodeId> members;
  for (const Member& member : view.members) members.push_back(member.node);
  return view.view_id > 0 && !is_quorum(view, members);
}

bool View::descends_from(const HistoryId& from, std::uint64_t step) const {
  if (from.turn > turns.size()) return false;
  const std::uint64_t mark = from.turn == 0 ? 0 : turns[from.turn - 1].mark;
  if (mark != from.mark) return false;
  return std::all_of(turns.begin() + from.turn, turns.end(),
                     [step](const Turn& later) { return step <= later.base_step; });
}

std::uint32_t View::generation() const {
  return static_cast<std::uint32_t>(
      std::count_if(turns.begin(), turns.end(), [](const Turn& turn) { return turn.is_split(); }));
}

namespace {

// The first turn of `view` that the other does not share, if that is a split: the quorum of the
// last common view went the other way, or no way at all.
const Turn* split_of(const View& view, const View& other) {
  std::size_t shared = 0;
  while (shared < view.turns.size() && shared < other.turns.size() &&
         view.turns[shared] == other.turns[shared])
    ++shared;
  const bool splits = shared < view.turns.size() && view.turns[shared].is_split();
  return splits ? &view.turns[shared] : nullptr;
}

Precedence theirs_if(bool yes) {
  return yes ? Precedence::theirs : Precedence::ours;
}

}  // namespace

Precedence precedence(const View& theirs, const View& ours) {
  const Turn* their_split = split_of(theirs, ours);
  const Turn* our_split = split_of(ours, theirs);
  if (!their_split && !our_split) return theirs_if(theirs.view_id > ours.view_id);
  // A view from before the split is what the other side has come from.
  const bool ordered = Turn::Kind::ordered == (their_split ? their_split : our_split)->kind;
  if (!our_split) return theirs_if(ours.view_id < their_split->view_id || ordered);
  if (!their_split) return theirs_if(theirs.view_id >= our_split->view_id && !ordered);
  if (their_split->kind != our_split->kind) return theirs_if(ordered);
  if (theirs.met != our_split->mark || ours.met != their_split->mark) return Precedence::open;
  // Later views of either part, which may have gone on or back since, compare as those did.
  if (theirs.met_step != ours.met_step) return theirs_if(theirs.met_step > ours.met_step);
  return theirs_if(their_split->mark < our_split->mark);
}

std::uint64_t parted_by(const View& theirs, const View& ours) {
  const Turn* split = split_of(theirs, ours);
  return split ? split->mark : 0;
}

bool lies_behind(const View& earlier, const View& later) {
  if (earlier.view_id >= later.view_id) return false;
  const auto since = std::find_if(later.turns.begin(), later.turns.end(),
                                  [&](const Turn& turn) { return turn.view_id > earlier.view_id; });
  return std::equal(later.turns.begin(), since, earlier.turns.begin(), earlier.turns.end());
}

}  // namespace gpunode::view
