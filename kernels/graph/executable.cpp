#include "kernels/graph/executable.hpp"

#include <algorithm>
#include <array>

#include "kernels/graph/op.hpp"

namespace gpunode::graph {
namespace {

constexpr std::size_t kMostOperands = 8;
constexpr std::string_view kProductsInBf16 = "products in bf16";
constexpr std::string_view kProductsInTf32 = "products in tf32";

}  // namespace

Executable::Executable(Graph graph) : graph_(std::move(graph)), plan_(plan_memory(graph_)) {
  first_node_.assign(stages() + 1, graph_.nodes.size());
  for (std::size_t at = graph_.nodes.size(); at-- > 0;) {
    const Node& node = graph_.nodes[at];
    GPUNODE_CHECK(node.in.size() <= kMostOperands && node.out.size() <= kMostOperands,
                  "an operation has too many operands");
    first_node_[node.stage] = at;
  }
}

std::vector<std::string_view> Executable::missing(const ops::Backend& backend) const {
  const ops::Operations& operations = backend.operations();
  std::vector<std::string_view> names;
  const auto lacks = [&](std::string_view name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const Node& node : graph_.nodes) {
    const OpRow& row = row_of(node.op);
    const Precision precision = node.attributes.precision;
    if (precision == Precision::bf16 && !operations.pack_product) lacks(kProductsInBf16);
    if (precision == Precision::tf32 && !backend.capabilities().tf32) lacks(kProductsInTf32);
    if (!row.is_on(operations)) lacks(row.name);
  }
  return names;
}

void* Executable::place_of(ValueId id, const Places& places) const {
  if (id == kNone) return nullptr;
  const Value& value = graph_[id];
  if (value.role == Role::parameter) return const_cast<float*>(places.parameters + value.first);
  if (value.role == Role::constant) return const_cast<float*>(places.constants + value.first);
  if (value.role == Role::cache) {
    const auto at = std::ranges::find(graph_.caches, id) - graph_.caches.begin();
    return places.caches[static_cast<std::size_t>(at)];
  }
  const Place& place = plan_.places[id];
  return (place.piece == Piece::slice ? places.slice : places.scratch) + place.offset;
}

void* Executable::operand_place(const Node& node, ValueId id, const Places& places) const {
  if (id == kNone || graph_[id].role != Role::gradient) return place_of(id, places);
  const std::size_t range_first = node.stage < graph_.forward_stages
                                      ? 0
                                      : graph_.made_final[node.stage - graph_.forward_stages].first;
  return places.gradient + (graph_[id].first - range_first);
}

Result<void> Executable::run(std::size_t stage, ops::Backend& backend, tensor::Stream& stream,
                             tensor::Workspace& workspace, const Places& places) const {
  for (std::size_t at = first_node_[stage]; at < first_node_[stage + 1]; ++at)
    if (auto done = run_node(at, backend, stream, workspace, places); !done) return done;
  return {};
}

Result<void> Executable::run_node(std::size_t at, ops::Backend& backend, tensor::Stream& stream,
                                  tensor::Workspace& workspace, const Places& places) const {
  const Node& node = graph_.nodes[at];
  std::array<const Value*, kMostOperands> in{}, out{};
  std::array<void*, kMostOperands> in_data{}, out_data{};
  const auto resolve = [&](ValueId id, const Value*& value, void*& data) {
    if (id == kNone) return;
    value = &graph_[id];
    data = operand_place(node, id, places);
  };
  for (std::size_t index = 0; index < node.in.size(); ++index)
    resolve(node.in[index], in[index], in_data[index]);
  for (std::size_t index = 0; index < node.out.size(); ++index)
    resolve(node.out[index], out[index], out_data[index]);
  return row_of(node.op).run({.backend = backend,
                              .ops = backend.operations(),
                              .stream = stream,
                              .workspace = workspace,
                              .attributes = node.attributes,
                              .in_values = in,
                              .out_values = out,
                              .in_data = in_data,
                              .out_data = out_data,
                              .packed = places.packed});
}

}  // namespace gpunode::graph
