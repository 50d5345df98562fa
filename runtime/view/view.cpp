#include "runtime/view/view.hpp"

#include <algorithm>

namespace gpunode::view {

namespace {

// Folds values into a digest in one fixed byte order (all our machines are little-endian).
class Fold {
 public:
  template <class T>
  void value(const T& value) {
    static_assert(std::is_integral_v<T>);
    stream_.add({reinterpret_cast<const std::byte*>(&value), sizeof value});
  }
  void value(const Digest& digest) {
    value(digest.high);
    value(digest.low);
  }
  void value(const NodeId& node) { stream_.add(node.value); }
  void value(const Member& member) {
    value(member.node);
    value(member.boot);
  }
  template <class T>
  void list(const std::vector<T>& values) {
    value(static_cast<std::uint64_t>(values.size()));
    for (const T& one : values) value(one);
  }
  Digest result() const { return stream_.value(); }

 private:
  DigestStream stream_;
};

}  // namespace

Digest View::digest() const {
  Fold fold;
  fold.value(job);
  fold.value(generation);
  fold.value(view_id);
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
  fold.value(rollback_count);
  fold.value(disagreed_step);
  fold.list(sync_sources);
  // Later fields only where they say something: older views keep their digest.
  if (lineage != 0) fold.value(lineage);
  if (stopped) fold.value(std::uint8_t{1});
  if (!paces.empty()) fold.list(paces);
  if (durable != CheckpointName{}) {
    fold.value(durable.epoch);
    fold.value(durable.step);
  }
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

bool View::is_witness(const NodeId& node) const {
  return view_id > 0 && is_acceptor(node) && !rank_of(node);
}

bool is_quorum(const View& view, std::span<const NodeId> yes) {
  std::size_t count = 0;
  bool tie = false;
  for (const NodeId& acceptor : view.acceptors) {
    if (std::find(yes.begin(), yes.end(), acceptor) == yes.end()) continue;
    ++count;
    tie = tie || acceptor == view.tie;
  }
  if (2 * count > view.acceptors.size()) return true;
  return count > 0 && 2 * count == view.acceptors.size() && tie;
}

bool needs_lease(const View& view) {
  std::vector<NodeId> members;
  for (const Member& member : view.members) members.push_back(member.node);
  return view.view_id > 0 && !is_quorum(view, members);
}

}  // namespace gpunode::view
