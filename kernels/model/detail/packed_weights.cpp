#include "kernels/model/detail/packed_weights.hpp"

#include <algorithm>

namespace gpunode::model {
namespace {

// Calls each(parameter, transpose_b) for every right factor of these nodes that is packed.
template <class Each>
void for_factors(const graph::Graph& graph, std::span<const graph::Node> nodes, Each each) {
  for (const graph::Node& node : nodes) {
    const bool forward = node.op == graph::Op::linear || node.op == graph::Op::linear_gelu;
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
  for_factors(graph, graph.nodes, [&](const graph::Value& weight, bool forward) {
    bytes[{weight.first, forward}] = bytes_of(weight);
  });
  std::uint64_t sum = 0;
  for (const auto& [key, one] : bytes) sum += one;
  return sum;
}

Result<void> PackedWeights::place(const graph::Graph& graph, tensor::BufferPool& pool,
                                  const ops::Capabilities& device) {
  is_the_hosts_ = device.host_accessible;
  Result<void> done;
  for_factors(graph, graph.nodes, [&](const graph::Value& weight, bool forward) {
    Packed& packed = packed_[{weight.first, forward}];
    if (!done || packed.bytes > 0) return;
    packed.count = weight.element_count();
    packed.bytes = bytes_of(weight);
    // What its threads compute, they share; a device of its own does it in one piece.
    constexpr std::size_t kLeastPart = 1 << 17, kMostParts = 64;
    if (is_the_hosts_)
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
      packed.made = nullptr;
    }
}

std::vector<PackedWeights::Need> PackedWeights::needs_of(const graph::Executable& executable,
                                                         std::size_t stage,
                                                         const float* parameters) {
  std::vector<Need> needs;
  const auto add = [&](const graph::Value& weight, bool forward) {
    const auto found = packed_.find({weight.first, forward});
    if (found != packed_.end())
      needs.push_back({&found->second, {parameters + weight.first, weight.shape}, forward});
  };
  for_factors(executable.graph(), executable.nodes_of(stage), add);
  return needs;
}

void PackedWeights::end_part(Packed& packed, bool failed) {
  if (failed) packed.failed = true;
  packed.done.fetch_add(1);
  packed.done.notify_all();
}

Result<void> PackedWeights::do_parts(const Need& need, const Site& site,
                                     std::vector<Packed*>& queued) const {
  Packed& packed = *need.packed;
  const MutableByteView bytes(packed.memory.as<std::byte>(), packed.bytes);
  Result<void> done;
  for (std::int64_t part; (part = packed.next.fetch_add(1)) < packed.parts;) {
    if (done)
      done = site.backend.operations().pack_product(site.stream, site.workspace,
                                                    {.b = need.weight,
                                                     .transpose_b = need.transpose_b,
                                                     .out = bytes,
                                                     .part = part,
                                                     .parts = packed.parts});
    if (is_the_hosts_ || !done)
      end_part(packed, !done);
    else
      queued.push_back(&packed);
  }
  return done;
}

Result<void> PackedWeights::end_queued(const Site& site, std::span<Packed* const> queued) {
  if (queued.empty()) return {};
  Result<void> done;
  std::shared_ptr<const tensor::Event> made;
  if (auto recorded = site.backend.record(site.stream))
    made = *std::move(recorded);
  else
    done = recorded.error();
  for (Packed* packed : queued) {
    packed->made = made;
    packed->maker = &site.stream;
    end_part(*packed, !done);
  }
  return done;
}

// Who waits for another's part waits until it is queued; the site's stream, until it has run.
Result<void> PackedWeights::make_ready(const graph::Executable& executable, std::size_t stage,
                                       const Site& site) {
  if (packed_.empty()) return {};
  const std::vector<Need> needs = needs_of(executable, stage, site.parameters);
  std::vector<Packed*> queued;
  Result<void> done;
  for (const Need& need : needs)
    if (done && need.packed->done.load() < need.packed->parts) done = do_parts(need, site, queued);
  if (auto ended = end_queued(site, queued); done) done = ended;
  if (!done) return done;
  const tensor::Event* waited_for = nullptr;
  for (const Need& need : needs) {
    Packed& packed = *need.packed;
    for (std::int64_t parts; (parts = packed.done.load()) < packed.parts;) packed.done.wait(parts);
    if (packed.failed)
      return {ErrorCode::internal, "a weight could not be made ready for products in bf16"};
    if (is_the_hosts_ || packed.maker == &site.stream || packed.made.get() == waited_for) continue;
    waited_for = packed.made.get();
    if (done = site.backend.wait(site.stream, *packed.made); !done) return done;
  }
  return {};
}

Result<ByteView> PackedWeights::of(const graph::Call& call, std::size_t operand, bool transpose_b) {
  const auto found = packed_.find({call.in_values[operand]->first, transpose_b});
  if (found == packed_.end()) return ByteView{};
  const Packed& packed = found->second;
  GPUNODE_CHECK(packed.done.load() == packed.parts, "a stage's weights are made ready before it");
  return ByteView(packed.memory.as<std::byte>(), packed.bytes);
}

}  // namespace gpunode::model
