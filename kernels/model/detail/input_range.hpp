// Which whole numbers a graph can read: rows of a table, classes, positions. What a model's own code
// gives, or a text, is held against it before it reaches a device.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "kernels/graph/graph.hpp"
#include "kernels/model/graph_model.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::model {

// [least, end).
struct WholeRange {
  std::int64_t least = std::numeric_limits<std::int32_t>::min();
  std::int64_t end = std::int64_t{std::numeric_limits<std::int32_t>::max()} + 1;
  bool contains(std::int64_t value) const { return value >= least && value < end; }
  std::string text() const {  // "0 to 9"
    return std::to_string(least) + " to " + std::to_string(end - 1);
  }
};
WholeRange range_of(const graph::Graph& graph, graph::ValueId input);

// What stands in a whole-number input before a model's read(): no number that it may have.
inline constexpr std::int32_t kUnfilled = std::numeric_limits<std::int32_t>::min();

// One sample's part of an input, as read() has filled it. Fails with: invalid_argument.
Result<void> check_whole(const InputPart& part, const WholeRange& range, std::uint64_t sample);

}  // namespace gpunode::model
