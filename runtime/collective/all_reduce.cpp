#include "runtime/collective/all_reduce.hpp"

#include <algorithm>
#include <utility>

#include "runtime/collective/detail/all_reduce_state.hpp"

namespace gpunode::collective {

namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

}  // namespace

AllReduce::AllReduce(Options options, Time now)
    : state_(std::make_unique<State>(std::move(options), now)) {}
AllReduce::~AllReduce() = default;
AllReduce::AllReduce(AllReduce&&) noexcept = default;
AllReduce& AllReduce::operator=(AllReduce&&) noexcept = default;

void AllReduce::on_partial(Time now, TreeNode node, SharedFloats sum,
                           DataFingerprint data_fingerprint, std::vector<SendTo>& out) {
  on_partial_range(now, node, sum, data_fingerprint, 0, state_->options.layout.element_count, out);
}

void AllReduce::on_partial_range(Time now, TreeNode node, const SharedFloats& sum,
                                 DataFingerprint data_fingerprint, std::uint64_t first,
                                 std::uint64_t count, std::vector<SendTo>& out) {
  State& state = *state_;
  const ChunkLayout& layout = state.options.layout;
  State::CoverNode* cover_node = state.find(node);
  GPUNODE_CHECK(cover_node, "not a node of the cover");
  GPUNODE_CHECK(sum && sum->size() == layout.element_count, "partial sum of another length");
  GPUNODE_CHECK(first <= sum->size() && count <= sum->size() - first, "range outside the sum");
  if (!cover_node->own) {
    cover_node->own = sum;
    cover_node->data_fingerprint = data_fingerprint;
    cover_node->final_elements.resize(layout.chunk_count());
  }
  GPUNODE_CHECK(cover_node->own == sum, "two vectors for one partial sum");
  if (state.options.member_count == 1) state.result = sum;
  state.add_final(now, *cover_node, first, count, out);
}

void AllReduce::set_times(const ComputeTimes& compute, const AfterTimes& before) {
  state_->times.compute = compute;
  state_->times.before = before;
}

void AllReduce::on_message(Time now, std::uint16_t from, const ExchangeMessage& message,
                           std::vector<SendTo>& out) {
  State& state = *state_;
  if (from >= state.options.member_count || from == state.options.rank) {
    ++state.dropped;
    return;
  }
  std::visit(Overloaded{[&](const PartialChunk& partial) { state.on(now, from, partial, out); },
                        [&](const ResultChunk& result) { state.on(now, from, result, out); },
                        [&](const Done& done) { state.on(now, from, done); },
                        [&](const Need& need) { state.on(from, need, out); }},
             message);
}

void AllReduce::on_tick(Time now, std::vector<SendTo>& out) {
  State& state = *state_;
  const auto& own = state.peers[state.options.rank].done;
  for (std::uint16_t rank = 0; rank < state.options.member_count; ++rank) {
    State::Peer& peer = state.peers[rank];
    bool lacking = own ? !peer.done : state.lacks_bytes(rank);
    if (rank == state.options.rank || !lacking || now - peer.quiet_since < peer.timeout) continue;
    if (own) out.push_back({rank, *own});
    state.ask(now, rank, out);
  }
}

void AllReduce::on_reconnected(Time now, std::uint16_t peer, std::vector<SendTo>& out) {
  State& state = *state_;
  if (peer >= state.options.member_count || peer == state.options.rank) return;
  if (const auto& own = state.peers[state.options.rank].done) out.push_back({peer, *own});
  state.heard(now, peer);
  state.ask(now, peer, out);
}

std::shared_ptr<ChunkPlaces> AllReduce::places() const {
  return state_->places;
}

AllReduce::Arrived AllReduce::take_arrived() {
  if (!state_->buffer) return {};
  return {state_->result, std::exchange(state_->arrived, {})};
}

bool AllReduce::held() const {
  return state_->peers[state_->options.rank].done.has_value();
}
bool AllReduce::committed() const {
  return state_->committed();
}
bool AllReduce::disagreed() const {
  return state_->disagreed;
}

SharedFloats AllReduce::result() const {
  GPUNODE_CHECK(held(), "result of a step that is not held");
  return state_->result;
}

Done AllReduce::done() const {
  GPUNODE_CHECK(held(), "DONE of a step that is not held");
  return *state_->peers[state_->options.rank].done;
}

Digest AllReduce::result_digest() const {
  return done().result;
}
DataFingerprint AllReduce::data_fingerprint() const {
  return done().data_fingerprint;
}

std::vector<StepTimes> AllReduce::times() const {
  GPUNODE_CHECK(committed(), "times of a step that is not committed");
  std::vector<StepTimes> times;
  for (const State::Peer& peer : state_->peers) times.push_back(peer.done->times);
  return times;
}

std::vector<TreeNode> AllReduce::own_cover() const {
  std::vector<TreeNode> nodes;
  for (const State::CoverNode& cover_node : state_->cover) nodes.push_back(cover_node.node);
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

std::vector<std::uint16_t> AllReduce::waiting_for() const {
  std::vector<std::uint16_t> ranks;
  for (std::uint16_t rank = 0; rank < state_->options.member_count; ++rank) {
    const State::Peer& peer = state_->peers[rank];
    bool lacking = held() ? !peer.done : state_->lacks_bytes(rank);
    if (rank != state_->options.rank && lacking) ranks.push_back(rank);
  }
  return ranks;
}

Lack AllReduce::lack_of(std::uint16_t rank) const {
  if (rank >= state_->peers.size() || rank == state_->options.rank) return Lack::nothing;
  const State::Peer& peer = state_->peers[rank];
  if (held()) return peer.done ? Lack::nothing : Lack::confirmation;
  if (peer.missing_partials > 0) return Lack::partial_sums;
  return peer.missing_results > 0 ? Lack::results : Lack::nothing;
}

std::uint64_t AllReduce::dropped_messages() const {
  return state_->dropped;
}

}  // namespace gpunode::collective
