#include "runtime/collective/all_reduce.hpp"

#include <algorithm>
#include <utility>

namespace gpunode::collective {

void AllReduce::on_partial(Time now, TreeNode node, SharedFloats sum,
                           DataFingerprint data_fingerprint, std::vector<SendTo>& out) {
  on_partial_range(now, node, sum, data_fingerprint, 0, options_.layout.element_count, out);
}

void AllReduce::on_partial_range(Time now, TreeNode node, const SharedFloats& sum,
                                 DataFingerprint data_fingerprint, std::uint64_t first,
                                 std::uint64_t count, std::vector<SendTo>& out) {
  const ChunkLayout& layout = options_.layout;
  CoverNode* cover_node = find(node);
  // Ours: what is told here has been summed by this node.
  GPUNODE_CHECK(cover_node, "not a node of the cover");
  GPUNODE_CHECK(sum && sum.size() == layout.element_count, "partial sum of another length");
  GPUNODE_CHECK(first <= sum.size() && count <= sum.size() - first, "range outside the sum");
  if (options_.member_count > 1 && !sum.bring()) return;
  if (!cover_node->own) {
    cover_node->own = sum;
    cover_node->data_fingerprint = data_fingerprint;
    cover_node->final_elements.resize(layout.chunk_count());
  }
  // Ours: likewise.
  GPUNODE_CHECK(cover_node->own == sum, "two vectors for one partial sum");
  if (options_.member_count == 1) result_ = sum;
  add_final(now, *cover_node, first, count, out);
}

void AllReduce::on_carried(Time now, const SharedFloats& result,
                           const DataFingerprint& data_fingerprint, std::vector<SendTo>& out) {
  // Ours: the carrier writes into memory of this node, made for the whole result.
  GPUNODE_CHECK(result && result.size() == options_.layout.element_count,
                "result of another length");
  if (!is_carried_ || held() || !adopt(data_fingerprint)) return;
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const Digest digest = result.digest(part_of(chunk));
    if (!chunks_[chunk].here)
      chunk_is_here(chunk, digest);
    else if (chunks_[chunk].digest != digest)
      disagreed_ = true;
  }
  for (Peer& peer : peers_) peer.missing_partials = peer.missing_results = 0;
  result_ = result;
  buffer_.reset();
  places_.reset();
  arrived_.clear();
  hold_when_whole(now, out);
}

void AllReduce::set_times(const ComputeTimes& compute, const AfterTimes& before) {
  times_.compute = compute;
  times_.before = before;
}

void AllReduce::on_message(Time now, std::uint16_t from, const ExchangeMessage& message,
                           std::vector<SendTo>& out) {
  if (from >= options_.member_count || from == options_.rank) {
    ++dropped_;
    return;
  }
  std::visit([&](const auto& one) { on(now, from, one, out); }, message);
}

void AllReduce::on_tick(Time now, std::vector<SendTo>& out) {
  const auto& own = peers_[options_.rank].done;
  for (std::uint16_t rank = 0; rank < options_.member_count; ++rank) {
    Peer& peer = peers_[rank];
    if (lack_of(rank) == Lack::nothing || now - peer.quiet_since < peer.timeout) continue;
    if (own) out.push_back({rank, *own});
    ask(now, rank, out);
  }
}

void AllReduce::on_reconnected(Time now, std::uint16_t peer, std::vector<SendTo>& out) {
  if (peer >= options_.member_count || peer == options_.rank) return;
  if (const auto& own = peers_[options_.rank].done) out.push_back({peer, *own});
  heard(now, peer);
  ask(now, peer, out);
}

AllReduce::Arrived AllReduce::take_arrived() {
  if (!buffer_) return {};
  return {result_, std::exchange(arrived_, {})};
}

SharedFloats AllReduce::result() const {
  GPUNODE_CHECK(held(), "result of a step that is not held");
  return result_;
}

Done AllReduce::done() const {
  GPUNODE_CHECK(held(), "DONE of a step that is not held");
  return *peers_[options_.rank].done;
}

std::vector<StepTimes> AllReduce::times() const {
  GPUNODE_CHECK(committed(), "times of a step that is not committed");
  std::vector<StepTimes> times;
  for (const Peer& peer : peers_) times.push_back(peer.done->times);
  return times;
}

std::vector<TreeNode> AllReduce::own_cover() const {
  std::vector<TreeNode> nodes;
  for (const CoverNode& cover_node : cover_) nodes.push_back(cover_node.node);
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

std::vector<std::uint16_t> AllReduce::waiting_for() const {
  std::vector<std::uint16_t> ranks;
  for (std::uint16_t rank = 0; rank < options_.member_count; ++rank) {
    if (lack_of(rank) != Lack::nothing) ranks.push_back(rank);
  }
  return ranks;
}

Lack AllReduce::lack_of(std::uint16_t rank) const {
  if (rank >= peers_.size() || rank == options_.rank) return Lack::nothing;
  const Peer& peer = peers_[rank];
  if (held()) return peer.done ? Lack::nothing : Lack::confirmation;
  if (peer.missing_partials > 0) return Lack::partial_sums;
  return peer.missing_results > 0 ? Lack::results : Lack::nothing;
}

}  // namespace gpunode::collective
