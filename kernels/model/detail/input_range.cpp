#include "kernels/model/detail/input_range.hpp"

#include <algorithm>

#include "kernels/ops/cross_entropy.hpp"

namespace gpunode::model {

WholeRange range_of(const graph::Graph& graph, graph::ValueId input) {
  WholeRange range;
  const auto narrow = [&](std::int64_t least, std::int64_t end) {
    range = {std::max(range.least, least), std::min(range.end, end)};
  };
  if (input == graph.targets) {
    const tensor::Shape& logits = graph[graph.logits].shape;
    narrow(ops::kNoTarget, logits[logits.rank() - 1]);
  }
  for (const graph::Node& node : graph.nodes) {
    if (node.op == graph::Op::embedding) {
      if (node.in[0] == input) narrow(0, graph[node.in[1]].shape[0]);
      if (node.in.size() > 4 && node.in[3] == input) narrow(0, graph[node.in[4]].shape[0]);
    }
    if (node.op == graph::Op::attention && node.in.size() > 1 && node.in[1] == input)
      narrow(0, graph[node.in[0]].shape[1] + 1);
  }
  return range;
}

Result<void> check_whole(const InputPart& part, const WholeRange& range, std::uint64_t sample) {
  for (const std::int32_t value : part.tokens()) {
    if (value != kUnfilled && range.contains(value)) continue;
    const std::string what =
        value == kUnfilled ? "is left out in part"
                           : "is given " + std::to_string(value) + ", and takes " + range.text();
    return {ErrorCode::invalid_argument, "read() of sample " + std::to_string(sample) +
                                             ": input '" + std::string(part.name) + "' " + what};
  }
  return {};
}

}  // namespace gpunode::model
