#include "runtime/directory/directory_codec.hpp"

#include "runtime/base/aligned_copy.hpp"
#include "runtime/base/wire_vector.hpp"
#include "schemas/directory_generated.h"

namespace gpunode::directory {

namespace {

namespace wire = gpunode::wire::directory;
constexpr std::size_t kMaxSignatureBytes = 128;

wire::Id to_wire(const std::array<std::byte, 32>& value) {
  return wire::Id(flatbuffers::make_span(reinterpret_cast<const std::uint8_t(&)[32]>(value)));
}

flatbuffers::Offset<flatbuffers::Vector<std::uint8_t>> write_bytes(
    flatbuffers::FlatBufferBuilder& builder, const Bytes& bytes) {
  return builder.CreateVector(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

flatbuffers::Offset<wire::Delta> write_delta(flatbuffers::FlatBufferBuilder& builder,
                                             const Delta& delta) {
  std::vector<flatbuffers::Offset<wire::Item>> items;
  for (const Item& item : delta.items)
    items.push_back(wire::CreateItem(builder, builder.CreateString(item.key),
                                     write_bytes(builder, item.value), item.version,
                                     item.tombstone));
  const auto list = builder.CreateVector(items);
  const auto signature = write_bytes(builder, delta.signature);
  const wire::Id owner = to_wire(delta.owner.value), root = to_wire(delta.root);
  return wire::CreateDelta(builder, &owner, delta.epoch, delta.collected, delta.version, &root,
                           signature, delta.since, delta.upto, list);
}

bool read_bytes(const flatbuffers::Vector<std::uint8_t>* in, std::size_t limit, Bytes& bytes) {
  if (!in) return true;
  if (in->size() > limit) return false;
  bytes = to_bytes({reinterpret_cast<const std::byte*>(in->data()), in->size()});
  return true;
}

bool read_delta(const wire::Delta& in, WireBudget& budget, Delta& delta) {
  if (!in.owner() || !in.root()) return false;
  delta.owner = NodeId{array_of(in.owner())};
  delta.epoch = in.epoch();
  delta.collected = in.collected();
  delta.version = in.version();
  delta.root = array_of(in.root());
  delta.since = in.since();
  delta.upto = in.upto();
  if (!read_bytes(in.signature(), kMaxSignatureBytes, delta.signature)) return false;
  if (delta.since > delta.upto || delta.upto > delta.version || delta.collected > delta.version)
    return false;
  if (!in.items()) return true;
  if (in.items()->size() > kMaxItems) return false;
  std::uint64_t last = delta.since;
  for (const wire::Item* item : *in.items()) {
    Item& out = delta.items.emplace_back();
    if (!item->key() || item->key()->size() > kMaxKeyBytes) return false;
    if (!read_bytes(item->value(), kMaxValueBytes, out.value)) return false;
    out.key = item->key()->str();
    if (!budget.take(out.key.size() + out.value.size())) return false;
    out.version = item->version();
    out.tombstone = item->tombstone();
    if (out.version <= last || out.version > delta.upto) return false;
    last = out.version;
  }
  return true;
}

constexpr flatbuffers::uoffset_t kMaxDepth = 6;
constexpr flatbuffers::uoffset_t kMaxTables = 1 + kMaxDeltas + 2 * kMaxItems;

}  // namespace

Bytes encode(const Message& message) {
  flatbuffers::FlatBufferBuilder builder(1024);
  std::vector<wire::Position> positions;
  for (const Position& each : message.positions)
    positions.emplace_back(to_wire(each.owner.value), each.epoch, each.version);
  std::vector<flatbuffers::Offset<wire::Delta>> deltas;
  for (const Delta& delta : message.deltas) deltas.push_back(write_delta(builder, delta));
  const auto position_list = builder.CreateVectorOfStructs(positions);
  const auto delta_list = builder.CreateVector(deltas);
  const wire::Id root = to_wire(message.root);
  wire::FinishMessageBuffer(
      builder, wire::CreateMessage(builder, static_cast<std::uint8_t>(message.kind), &root,
                                   position_list, delta_list));
  return finished_bytes(builder);
}

Result<Message> decode(ByteView bytes) {
  if (bytes.size() > kMaxWireBytes || bytes.size() < 12)
    return {ErrorCode::resource_exhausted, "directory message of a size that nobody sends"};
  const AlignedCopy copy(bytes);
  const std::uint8_t* data = copy.data();
  flatbuffers::Verifier verifier(data, bytes.size(), kMaxDepth, kMaxTables);
  if (!wire::MessageBufferHasIdentifier(data) || !wire::VerifyMessageBuffer(verifier))
    return {ErrorCode::corrupted, "not a directory message"};
  const wire::Message& in = *wire::GetMessage(data);
  if (in.kind() > static_cast<std::uint8_t>(MessageKind::deltas))
    return {ErrorCode::corrupted, "directory message of an unknown kind"};
  Message message;
  message.kind = static_cast<MessageKind>(in.kind());
  message.root = array_of(in.root());
  if (in.positions()) {
    if (in.positions()->size() > kMaxPositions)
      return {ErrorCode::resource_exhausted, "directory message with too many positions"};
    if (!lies_aligned(in.positions()))
      return {ErrorCode::corrupted, "directory message with misplaced positions"};
    for (const wire::Position* each : *in.positions())
      message.positions.push_back(
          {NodeId{array_of(&each->owner())}, each->epoch(), each->version()});
  }
  if (in.deltas()) {
    if (in.deltas()->size() > kMaxDeltas)
      return {ErrorCode::resource_exhausted, "directory message with too many deltas"};
    WireBudget budget(bytes.size());
    for (const wire::Delta* delta : *in.deltas())
      if (!read_delta(*delta, budget, message.deltas.emplace_back()))
        return {ErrorCode::corrupted, "directory message with a delta out of bounds"};
  }
  return message;
}

}  // namespace gpunode::directory
