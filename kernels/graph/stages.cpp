#include "kernels/graph/stages.hpp"

#include <algorithm>
#include <map>

namespace gpunode::graph {
namespace {

using tensor::ElementRange;
using Ranges = std::vector<ElementRange>;

constexpr std::size_t kSmallStage = 4096;  // elements

// A node whose only result is a part of a gradient moves to the node that adds to it.
void sink_parts(Graph& graph) {
  std::vector<Node>& nodes = graph.nodes;
  const std::size_t stages = graph.forward_stages;
  for (std::size_t at = nodes.size(); at-- > 0 && nodes[at].stage >= stages;) {
    const ValueId part = nodes[at].out[0];
    if (nodes[at].out.size() != 1 || graph[part].role != Role::gradient) continue;
    const auto user = std::find_if(
        nodes.begin() + static_cast<std::ptrdiff_t>(at) + 1, nodes.end(),
        [&](const Node& one) { return std::ranges::find(one.in, part) != one.in.end(); });
    if (user == nodes.end()) continue;
    nodes[at].stage = user->stage;
    std::rotate(nodes.begin() + static_cast<std::ptrdiff_t>(at),
                nodes.begin() + static_cast<std::ptrdiff_t>(at) + 1, user);
  }
}

// The one range that `parts` are together, if they are one.
bool joined(Ranges parts, ElementRange& whole) {
  if (parts.empty()) return false;
  std::ranges::sort(parts, {}, &ElementRange::first);
  whole = {parts.front().first, 0};
  for (const ElementRange& part : parts) {
    if (part.first != whole.first + whole.count) return false;
    whole.count += part.count;
  }
  return true;
}

// Numbers stages anew, from 0: of each old one its new one, and the ranges of the new ones. In
// `ascending` order each range begins where the one before it ended.
std::vector<std::size_t> join_stages(const std::vector<Ranges>& wished, bool ascending,
                                     Ranges& ranges) {
  std::vector<std::size_t> number;
  Ranges gathered;
  std::size_t reached = 0;
  for (const Ranges& parts : wished) {
    number.push_back(ranges.size());
    gathered.insert(gathered.end(), parts.begin(), parts.end());
    ElementRange whole;
    if (!joined(gathered, whole) || (ascending && whole.first != reached)) continue;
    if (whole.count < kSmallStage && number.size() < wished.size()) continue;
    ranges.push_back(whole);
    gathered.clear();
    reached = whole.first + whole.count;
  }
  // What is left at the end belongs to the last that stands.
  for (std::size_t& one : number) one = std::min(one, ranges.empty() ? 0 : ranges.size() - 1);
  if (gathered.empty() && !ranges.empty()) return number;
  if (!ranges.empty()) {
    gathered.push_back(ranges.back());
    ranges.pop_back();
  }
  ElementRange whole;
  if (gathered.size() > 1 && joined(gathered, whole)) gathered = {whole};
  ranges.push_back(gathered.empty() ? ElementRange{} : gathered.front());
  return number;
}

ElementRange range_of(const Value& value) {
  return {value.first, value.element_count()};
}

}  // namespace

void arrange_stages(Graph& graph) {
  sink_parts(graph);
  const std::size_t forward = graph.forward_stages;
  std::vector<Ranges> reads(forward), finals(graph.backward_stages);
  std::vector<bool> seen(graph.values.size());
  std::map<std::size_t, std::pair<std::size_t, ElementRange>>
      last;  // by a parameter's first element
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.in) {
      if (id == kNone || graph[id].role != Role::parameter || node.stage >= forward || seen[id])
        continue;
      seen[id] = true;
      reads[node.stage].push_back(range_of(graph[id]));
    }
    for (const ValueId id : node.out)
      if (id != kNone && graph[id].role == Role::gradient)
        last[graph[id].first] = {node.stage - forward, range_of(graph[id])};
  }
  // Buffers are not read in training; they lie behind all that is.
  for (const ValueId id : graph.parameters)
    if (!seen[id] && !graph[id].differentiable) reads.back().push_back(range_of(graph[id]));
  for (const auto& [first, one] : last) finals[one.first].push_back(one.second);
  const auto read_number = join_stages(reads, true, graph.read_first);
  std::vector<std::size_t> final_number;
  if (!finals.empty()) final_number = join_stages(finals, false, graph.made_final);
  graph.forward_stages = graph.read_first.size();
  graph.backward_stages = graph.made_final.size();
  for (Node& node : graph.nodes)
    node.stage = node.stage < forward ? read_number[node.stage]
                                      : graph.forward_stages + final_number[node.stage - forward];
}

}  // namespace gpunode::graph
