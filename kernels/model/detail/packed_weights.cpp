#include "kernels/model/detail/packed_weights.hpp"

namespace gpunode::model {
namespace {

// Calls each(parameter, transpose_b) for every right factor that is packed.
template <class Each>
void for_factors(const graph::Graph& graph, Each each) {
  for (const graph::Node& node : graph.nodes) {
    const bool forward = node.op == graph::Op::linear;
    if (!forward && node.op != graph::Op::linear_input) continue;
    const graph::Value& weight = graph[node.in[1]];
    if (node.attributes.precision == Precision::bf16 && weight.role == graph::Role::parameter)
      each(weight, forward);
  }
}

std::size_t bytes_of(const graph::Value& weight) {
  return ops::packed_bytes(weight.shape[0], weight.shape[1]);
}

}  // namespace

std::uint64_t packed_weight_bytes(const graph::Graph& graph) {
  std::map<std::pair<std::size_t, bool>, std::uint64_t> bytes;  // one weight may be in many nodes
  for_factors(graph, [&](const graph::Value& weight, bool forward) {
    bytes[{weight.first, forward}] = bytes_of(weight);
  });
  std::uint64_t sum = 0;
  for (const auto& [key, one] : bytes) sum += one;
  return sum;
}

Result<void> PackedWeights::place(const graph::Graph& graph, tensor::BufferPool& pool) {
  Result<void> done;
  for_factors(graph, [&](const graph::Value& weight, bool forward) {
    Packed& packed = packed_[{weight.first, forward}];
    if (!done || packed.bytes > 0) return;
    packed.count = weight.element_count();
    packed.bytes = bytes_of(weight);
    auto memory = pool.take(packed.bytes);
    if (memory)
      packed.memory = *std::move(memory);
    else
      done = memory.error().within("weights in bf16");
  });
  return done;
}

void PackedWeights::make_stale(ElementRange part) {
  for (auto& [key, packed] : packed_)
    if (key.first < part.first + part.count && part.first < key.first + packed.count)
      packed.stale = true;
}

Result<ByteView> PackedWeights::of(const graph::Call& call, std::size_t operand, bool transpose_b) {
  const auto found = packed_.find({call.in_values[operand]->first, transpose_b});
  if (found == packed_.end()) return ByteView{};
  Packed& packed = found->second;
  const MutableByteView bytes(packed.memory.as<std::byte>(), packed.bytes);
  std::lock_guard lock(packed.mutex);
  if (!packed.stale) return ByteView(bytes);
  auto done =
      call.ops.pack_product(call.stream, call.workspace,
                            {.b = call.in(operand), .transpose_b = transpose_b, .out = bytes});
  if (done) done = call.stream.synchronise();
  if (!done) return done.error();
  packed.stale = false;
  return ByteView(bytes);
}

}  // namespace gpunode::model
