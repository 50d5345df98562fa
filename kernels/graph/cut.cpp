#include "kernels/graph/cut.hpp"

#include <algorithm>

namespace gpunode::graph {
namespace {

// What goes from the stages before each one to it or to later ones: how many values, and the last of them.
struct Crossing {
  std::size_t count = 0;
  ValueId value = kNone;
  bool is_input = false;  // of the model's own, which are read there or later
};

bool is_of_decoding(const Graph& graph, ValueId id) {
  const DecodingInputs& inputs = graph.decoding;
  return id == inputs.positions || id == inputs.texts || id == inputs.pages || id == inputs.chosen;
}

std::vector<Crossing> crossings_of(const Graph& graph) {
  constexpr std::size_t kNever = ~std::size_t{0};
  std::vector<std::size_t> made(graph.values.size(), kNever), read(graph.values.size(), 0);
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.in)
      if (id != kNone) read[id] = std::max(read[id], node.stage);
    for (const ValueId id : node.out)
      if (id != kNone) made[id] = node.stage;
  }
  if (graph.logits != kNone) read[graph.logits] = graph.forward_stages - 1;
  std::vector<Crossing> crossings(graph.forward_stages);
  for (std::size_t at = 0; at < graph.values.size(); ++at) {
    const auto id = static_cast<ValueId>(at);
    if (graph[id].role == Role::input && !is_of_decoding(graph, id))
      for (std::size_t stage = 1; stage <= read[at]; ++stage) crossings[stage].is_input = true;
    if (graph[id].role != Role::interim || made[at] == kNever) continue;
    for (std::size_t stage = made[at] + 1; stage <= read[at]; ++stage) {
      ++crossings[stage].count;
      crossings[stage].value = id;
    }
  }
  return crossings;
}

bool can_cut(const Graph& graph, const Crossing& crossing) {
  if (crossing.count != 1 || crossing.is_input) return false;
  const Value& value = graph[crossing.value];
  return value.dtype == Dtype::f32 && value.shape.rank() == 3 && value.shape[0] == 1 &&
         value.shape[1] == graph[graph.decoding.positions].shape[1];
}

}  // namespace

std::vector<std::size_t> cuts_of(const Graph& graph) {
  std::vector<std::size_t> cuts;
  if (graph.decoding.positions == kNone) return cuts;
  const std::vector<Crossing> crossings = crossings_of(graph);
  for (std::size_t stage = 1; stage < crossings.size(); ++stage)
    if (can_cut(graph, crossings[stage])) cuts.push_back(stage);
  return cuts;
}

Result<void> keep_stages(Graph& graph, StageSpan stages) {
  const std::vector<std::size_t> cuts = cuts_of(graph);
  const auto is_cut = [&](std::size_t stage) { return std::ranges::count(cuts, stage) == 1; };
  const bool is_first = stages.first == 0, is_last = stages.end == graph.forward_stages;
  if (stages.first >= stages.end || stages.end > graph.forward_stages ||
      !(is_first || is_cut(stages.first)) || !(is_last || is_cut(stages.end)))
    return {ErrorCode::invalid_argument, "the model has no part from stage " +
                                             std::to_string(stages.first) + " to " +
                                             std::to_string(stages.end)};
  const std::vector<Crossing> crossings = crossings_of(graph);
  std::erase_if(graph.nodes, [&](const Node& node) {
    return node.stage < stages.first || node.stage >= stages.end;
  });
  std::erase_if(graph.caches, [&](ValueId cache) {
    return std::ranges::none_of(graph.nodes, [&](const Node& node) {
      return std::ranges::find(node.in, cache) != node.in.end();
    });
  });
  if (!is_last) graph.logits = crossings[stages.end].value;
  if (is_first) return {};
  graph.carried = crossings[stages.first].value;
  graph[graph.carried].role = Role::input;
  graph[graph.carried].name = "carried";
  graph.inputs.push_back(graph.carried);
  return {};
}

std::vector<bool> read_parameters(const Graph& graph, StageSpan stages) {
  std::vector<bool> is_read(graph.values.size());
  for (const Node& node : graph.nodes)
    if (node.stage >= stages.first && node.stage < stages.end)
      for (const ValueId id : node.in)
        if (id != kNone) is_read[id] = true;
  std::vector<bool> parameters;
  for (const ValueId id : graph.parameters) parameters.push_back(is_read[id]);
  return parameters;
}

}  // namespace gpunode::graph
