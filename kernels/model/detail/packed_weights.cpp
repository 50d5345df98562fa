#include "kernels/model/detail/packed_weights.hpp"

#include <algorithm>

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

Result<void> PackedWeights::place(const graph::Graph& graph, tensor::BufferPool& pool,
                                  const ops::Capabilities& device) {
  Result<void> done;
  for_factors(graph, [&](const graph::Value& weight, bool forward) {
    Packed& packed = packed_[{weight.first, forward}];
    if (!done || packed.bytes > 0) return;
    packed.count = weight.element_count();
    packed.bytes = bytes_of(weight);
    // What its threads compute, they share; a device of its own does it in one piece.
    constexpr std::size_t kLeastPart = 1 << 17, kMostParts = 64;
    if (device.host_accessible)
      packed.parts = static_cast<std::int64_t>(
          std::clamp<std::size_t>(packed.count / kLeastPart, 1, kMostParts));
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
    if (key.first < part.first + part.count && part.first < key.first + packed.count) {
      packed.next = 0;
      packed.done = 0;
      packed.failed = false;
    }
}

Result<void> PackedWeights::do_parts(Packed& packed, const graph::Call& call, std::size_t operand,
                                     bool transpose_b) {
  const MutableByteView bytes(packed.memory.as<std::byte>(), packed.bytes);
  Result<void> done;
  for (std::int64_t part; (part = packed.next.fetch_add(1)) < packed.parts;) {
    if (done)
      done = call.ops.pack_product(call.stream, call.workspace,
                                   {.b = call.in(operand),
                                    .transpose_b = transpose_b,
                                    .out = bytes,
                                    .part = part,
                                    .parts = packed.parts});
    if (done) done = call.stream.synchronise();
    if (!done) packed.failed = true;
    packed.done.fetch_add(1);
    packed.done.notify_all();
  }
  return done;
}

Result<ByteView> PackedWeights::of(const graph::Call& call, std::size_t operand, bool transpose_b) {
  const auto found = packed_.find({call.in_values[operand]->first, transpose_b});
  if (found == packed_.end()) return ByteView{};
  Packed& packed = found->second;
  if (packed.done.load() < packed.parts)
    if (auto done = do_parts(packed, call, operand, transpose_b); !done) return done.error();
  for (std::int64_t done; (done = packed.done.load()) < packed.parts;) packed.done.wait(done);
  if (packed.failed)
    return Error{ErrorCode::internal, "a weight could not be made ready for products in bf16"};
  return ByteView(packed.memory.as<std::byte>(), packed.bytes);
}

}  // namespace gpunode::model
