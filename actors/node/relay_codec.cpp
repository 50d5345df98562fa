#include "actors/node/relay_codec.hpp"

#include "schemas/relay_generated.h"

namespace gpunode::node {

namespace wire = gpunode::wire::relay;

Bytes encode(const RelayMessage& message) {
  flatbuffers::FlatBufferBuilder builder(64);
  builder.Finish(wire::CreateRelay(builder, static_cast<wire::Kind>(message.kind), message.relay),
                 wire::RelayIdentifier());
  return to_bytes(
      {reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize()});
}

Result<RelayMessage> decode_relay(ByteView bytes) {
  Error corrupted{ErrorCode::corrupted, "not a message about admissions"};
  constexpr std::size_t kLimit = 1024;
  if (bytes.size() > kLimit || bytes.size() < 8) return corrupted;
  std::vector<std::uint64_t> aligned((bytes.size() + 7) / 8);
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const auto* data = reinterpret_cast<const std::uint8_t*>(aligned.data());
  flatbuffers::Verifier verifier(data, bytes.size(), 8, 16);
  if (!wire::VerifyRelayBuffer(verifier)) return corrupted;
  const wire::Relay* table = wire::GetRelay(data);
  if (table->kind() > wire::Kind::relay_answer) return corrupted;
  return RelayMessage{static_cast<RelayKind>(table->kind()), table->relay()};
}

}  // namespace gpunode::node
