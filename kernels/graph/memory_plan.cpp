#include "kernels/graph/memory_plan.hpp"

#include <algorithm>
#include <map>

#include "kernels/graph/op.hpp"

namespace gpunode::graph {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kNever = ~std::size_t{0};

// When memory of one or more values is needed: nodes `from` to `to`.
struct Life {
  std::size_t from = kNever, to = 0, bytes = 0;
  ValueId owner = kNone;  // whose memory it is: another's, or its own
};

// Consecutive memory of which pieces are taken and given back; the smallest gap that fits is taken,
// else the end grows.
class Arena {
 public:
  std::size_t take(std::size_t bytes) {
    auto best = gaps_.end();
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap)
      if (gap->second >= bytes && (best == gaps_.end() || gap->second < best->second)) best = gap;
    if (best == gaps_.end()) return grow(bytes);
    const auto [offset, size] = *best;
    gaps_.erase(best);
    if (size > bytes) gaps_[offset + bytes] = size - bytes;
    return offset;
  }

  void give_back(std::size_t offset, std::size_t bytes) {
    auto next = gaps_.lower_bound(offset);
    if (next != gaps_.end() && offset + bytes == next->first) {
      bytes += next->second;
      next = gaps_.erase(next);
    }
    if (next != gaps_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    gaps_[offset] = bytes;
  }

  std::size_t most() const { return end_; }

 private:
  // The last gap, if it reaches the end, becomes part of what is taken.
  std::size_t grow(std::size_t bytes) {
    std::size_t offset = end_;
    if (!gaps_.empty() && gaps_.rbegin()->first + gaps_.rbegin()->second == end_) {
      offset = gaps_.rbegin()->first;
      gaps_.erase(std::prev(gaps_.end()));
    }
    end_ = offset + bytes;
    return offset;
  }

  std::map<std::size_t, std::size_t> gaps_;  // offset, bytes
  std::size_t end_ = 0;
};

class Planner {
 public:
  explicit Planner(const Graph& graph) : graph_(graph), lives_(graph.values.size()) {}

  MemoryPlan run() {
    find_lives();
    share_in_place();
    MemoryPlan plan;
    plan.places.resize(lives_.size());
    lay_out(Piece::slice, plan);
    lay_out(Piece::scratch, plan);
    for (std::size_t id = 0; id < lives_.size(); ++id)
      plan.places[id] = plan.places[owner(static_cast<ValueId>(id))];
    for (const Node& node : graph_.nodes)
      if (const auto need = row_of(node.op).workspace_bytes)
        plan.workspace_bytes = std::max(plan.workspace_bytes, need(graph_, node));
    return plan;
  }

 private:
  bool is_planned(ValueId id) const {
    return graph_[id].role == Role::interim || graph_[id].role == Role::input;
  }
  ValueId owner(ValueId id) const {
    while (lives_[id].owner != id) id = lives_[id].owner;
    return id;
  }
  void use(ValueId id, std::size_t at) {
    if (id == kNone || !is_planned(id)) return;
    Life& life = lives_[id];
    life.from = std::min(life.from, at);
    life.to = std::max(life.to, at);
  }

  void find_lives() {
    for (std::size_t id = 0; id < lives_.size(); ++id) {
      lives_[id].owner = static_cast<ValueId>(id);
      lives_[id].bytes = (graph_.values[id].bytes() + kAlignment - 1) / kAlignment * kAlignment;
    }
    for (const ValueId input : graph_.inputs) use(input, 0);
    for (std::size_t at = 0; at < graph_.nodes.size(); ++at) {
      for (const ValueId id : graph_.nodes[at].in) use(id, at);
      for (const ValueId id : graph_.nodes[at].out) use(id, at);
    }
    // Results are read when their stage has ended.
    for (const ValueId result : {graph_.losses, graph_.logits}) {
      if (result == kNone || lives_[result].from == kNever) continue;
      if (result == graph_.logits && graph_.backward_stages > 0) continue;
      std::size_t& to = lives_[result].to;
      while (to + 1 < graph_.nodes.size() && graph_.nodes[to + 1].stage == graph_.nodes[to].stage)
        ++to;
    }
  }

  void share_in_place() {
    for (std::size_t at = 0; at < graph_.nodes.size(); ++at) {
      const Node& node = graph_.nodes[at];
      for (const OpRow::Reuse& reuse : row_of(node.op).reuses) {
        const ValueId result = node.out[reuse.result], operand = node.in[reuse.operand];
        if (operand == kNone || graph_[operand].role != Role::interim) continue;
        if (graph_[result].role != Role::interim || lives_[result].owner != result) continue;
        const ValueId from = owner(operand);
        const bool twice = std::ranges::count(node.in, operand) > 1;
        if (twice || lives_[from].to != at || lives_[from].bytes < lives_[result].bytes) continue;
        lives_[result].owner = from;
        lives_[from].to = lives_[result].to;
      }
    }
  }

  Piece piece_of(const Life& life) const {
    const bool one_stage = graph_.nodes[life.from].stage == graph_.nodes[life.to].stage;
    return one_stage ? Piece::scratch : Piece::slice;
  }

  void lay_out(Piece piece, MemoryPlan& plan) {
    std::vector<ValueId> begin, end;
    for (std::size_t at = 0; at < lives_.size(); ++at) {
      const auto id = static_cast<ValueId>(at);
      const Life& life = lives_[id];
      const bool kept = graph_[id].role == Role::input || id == graph_.losses;
      if (!is_planned(id) || life.owner != id || life.from == kNever) continue;
      if ((kept ? Piece::slice : piece_of(life)) == piece) begin.push_back(id);
    }
    end = begin;
    std::ranges::stable_sort(begin, {}, [&](ValueId id) { return lives_[id].from; });
    std::ranges::stable_sort(end, {}, [&](ValueId id) { return lives_[id].to; });
    Arena arena;
    auto over = end.begin();
    for (const ValueId id : begin) {
      for (; over != end.end() && lives_[*over].to < lives_[id].from; ++over)
        arena.give_back(plan.places[*over].offset, lives_[*over].bytes);
      plan.places[id] = {piece, arena.take(lives_[id].bytes)};
    }
    (piece == Piece::slice ? plan.slice_bytes : plan.scratch_bytes) = arena.most();
  }

  const Graph& graph_;
  std::vector<Life> lives_;
};

}  // namespace

MemoryPlan plan_memory(const Graph& graph) {
  return Planner(graph).run();
}

}  // namespace gpunode::graph
