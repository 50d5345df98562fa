#include "actors/node/relay_codec.hpp"

#include "runtime/base/aligned_copy.hpp"
#include "schemas/relay_generated.h"

namespace gpunode::node {

namespace wire = gpunode::wire::relay;

Bytes encode(const RelayMessage& message) {
  flatbuffers::FlatBufferBuilder builder(64);
  builder.Finish(wire::CreateRelay(builder, static_cast<wire::Kind>(message.kind), message.relay),
                 wire::RelayIdentifier());
  return finished_bytes(builder);
}

Result<RelayMessage> decode_relay(ByteView bytes) {
  Error corrupted{ErrorCode::corrupted, "not a message about admissions"};
  constexpr std::size_t kLimit = 1024;
  if (bytes.size() > kLimit || bytes.size() < 8) return corrupted;
  AlignedCopy copy(bytes);
  flatbuffers::Verifier verifier(copy.data(), copy.size(), 8, 16);
  if (!wire::VerifyRelayBuffer(verifier)) return corrupted;
  const wire::Relay* table = wire::GetRelay(copy.data());
  if (table->kind() > wire::Kind::audit_head) return corrupted;
  return RelayMessage{static_cast<RelayKind>(table->kind()), table->relay()};
}

}  // namespace gpunode::node
