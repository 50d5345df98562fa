// The graph by which a graph model reads rows of texts, whole or one part of it.
#pragma once

#include "kernels/model/decoder_part.hpp"
#include "kernels/model/graph_model.hpp"

namespace gpunode::model {

inline constexpr std::size_t kDecodingInputs = 4;  // come before the model's own

// Of a pass that reads some rows of texts.
struct DecodingShape {
  std::int64_t rows = 1;
  graph::Builder::Decoding decoding;
  bool independent_rows = true;
  ops::WeightFormat weights = ops::WeightFormat::fp32;
  std::optional<graph::StageSpan> part = {};  // absent: all of it
};

// Fail with: what GraphModel::prepare() and graph::compile() fail with.
Result<graph::Graph> decoding_graph(const GraphModel& model, const DecodingShape& shape);
Result<SharedExecutable> compile_decoding(const GraphModel& model, const DecodingShape& shape);

// Of all caches that the graph declares.
std::uint64_t cache_bytes(const graph::Graph& graph);

}  // namespace gpunode::model
