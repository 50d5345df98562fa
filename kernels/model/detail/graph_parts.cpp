// How a graph model is divided into parts that continue texts together: at cuts of its decoding graph, so
// that the part with the most bytes of weights has as few as can be.
#include <algorithm>
#include <limits>

#include "kernels/graph/cut.hpp"
#include "kernels/graph/keep_weights.hpp"
#include "kernels/model/detail/decoding_graph.hpp"

namespace gpunode::model {
namespace {

constexpr std::size_t kMostParts = 64;

DecodingShape smallest_shape(const GraphModel& model, ops::WeightFormat format) {
  return {.decoding = {.context = model.context(), .pages = 1}, .weights = format};
}

// Where the parts begin, and the end of the last: places among `cuts`, which have both ends.
class Division {
 public:
  Division(const graph::Graph& graph, std::vector<std::size_t> cuts)
      : graph_(graph), cuts_(std::move(cuts)), bytes_(cuts_.size()) {
    for (std::size_t first = 0; first + 1 < cuts_.size(); ++first) weigh(first);
  }

  // The one whose heaviest part is lightest.
  std::vector<std::size_t> into(std::size_t count) const {
    constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
    const std::size_t last = cuts_.size() - 1;
    // By parts so far and where the next begins: the heaviest of them, and where the last of them began.
    std::vector<std::vector<std::uint64_t>> heaviest(count + 1,
                                                     std::vector<std::uint64_t>(last + 1, kNone));
    std::vector<std::vector<std::size_t>> begun(count + 1, std::vector<std::size_t>(last + 1));
    heaviest[0][0] = 0;
    for (std::size_t parts = 1; parts <= count; ++parts)
      for (std::size_t end = parts; end <= last; ++end)
        for (std::size_t begin = parts - 1; begin < end; ++begin) {
          if (heaviest[parts - 1][begin] == kNone) continue;
          const std::uint64_t most =
              std::max(heaviest[parts - 1][begin], bytes_[begin][end - begin - 1]);
          if (most >= heaviest[parts][end]) continue;
          heaviest[parts][end] = most;
          begun[parts][end] = begin;
        }
    std::vector<std::size_t> ends{last};
    for (std::size_t parts = count; parts > 0; --parts) ends.push_back(begun[parts][ends.back()]);
    std::ranges::reverse(ends);
    return ends;
  }

 private:
  // What is read from this cut to each later one.
  void weigh(std::size_t first) {
    std::vector<bool> seen(graph_.parameters.size());
    std::uint64_t bytes = 0;
    for (std::size_t end = first + 1; end < cuts_.size(); ++end) {
      const auto is_read = graph::read_parameters(graph_, {cuts_[end - 1], cuts_[end]});
      for (std::size_t at = 0; at < is_read.size(); ++at)
        if (is_read[at] && !seen[at]) {
          seen[at] = true;
          bytes += graph_[graph_.parameters[at]].bytes();
        }
      bytes_[first].push_back(bytes);
    }
  }

  const graph::Graph& graph_;
  std::vector<std::size_t> cuts_;
  std::vector<std::vector<std::uint64_t>> bytes_;  // by cut, and how many cuts further
};

std::size_t width_of(const graph::Graph& graph, graph::ValueId value) {
  return static_cast<std::size_t>(graph[value].shape[2]);
}

Result<ModelPart> part_of(const GraphModel& model, DecodingShape shape, graph::StageSpan stages) {
  shape.part = stages;
  const auto executable = compile_decoding(model, shape);
  if (!executable) return executable.error();
  const graph::Graph& graph = (*executable)->graph();
  ModelPart part{
      .first_stage = stages.first,
      .end_stage = stages.end,
      .layout = {
          .format = shape.weights, .places = {}, .bytes = graph.parameter_count * sizeof(float)}};
  part.page_bytes = cache_bytes(graph);
  if (graph.carried != graph::kNone) part.takes = width_of(graph, graph.carried);
  const auto is_read = graph::read_parameters(graph, {0, graph.forward_stages});
  for (std::size_t at = 0; at < is_read.size(); ++at) {
    const graph::Value& value = graph[graph.parameters[at]];
    const int rank = value.shape.rank();
    part.layout.places.push_back({.first = value.first * sizeof(float),
                                  .format = value.format,
                                  .inner = rank == 0 ? 1 : value.shape[rank - 1],
                                  .bytes = is_read[at] ? value.bytes() : 0});
  }
  return part;
}

}  // namespace

Result<std::vector<ModelPart>> GraphModel::parts(ops::WeightFormat format,
                                                 std::size_t count) const {
  if (!generates())
    return Error{ErrorCode::unsupported,
                 name() + " does not continue texts, and is not divided among nodes"};
  const DecodingShape shape = smallest_shape(*this, format);
  auto graph = decoding_graph(*this, shape);
  if (!graph) return graph.error();
  graph::choose_formats(*graph, format);
  std::vector<std::size_t> cuts = graph::cuts_of(*graph);
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(graph->forward_stages);
  const std::size_t most = std::min(cuts.size() - 1, kMostParts);
  if (count < 1 || count > most)
    return Error{ErrorCode::invalid_argument, name() + " can be divided into 1 to " +
                                                  std::to_string(most) + " parts, not " +
                                                  std::to_string(count)};
  const std::vector<std::size_t> ends = Division(*graph, cuts).into(count);
  std::vector<ModelPart> parts;
  for (std::size_t at = 0; at < count; ++at) {
    auto part = part_of(*this, shape, {cuts[ends[at]], cuts[ends[at + 1]]});
    if (!part) return part.error();
    if (!parts.empty()) parts.back().gives = part->takes;
    parts.push_back(*std::move(part));
  }
  return parts;
}

}  // namespace gpunode::model
