#include "actors/node/relay_codec.hpp"

#include "runtime/base/aligned_copy.hpp"
#include "runtime/security/join_protocol.hpp"
#include "schemas/relay_generated.h"

namespace gpunode::node {

namespace wire = gpunode::wire::relay;

Bytes encode(const RelayMessage& message) {
  flatbuffers::FlatBufferBuilder builder(64);
  const auto endpoints = builder.CreateVectorOfStrings(message.endpoints);
  const auto seen_from = builder.CreateString(message.seen_from);
  builder.Finish(wire::CreateRelay(builder, static_cast<wire::Kind>(message.kind), message.relay,
                                   endpoints, message.reached, seen_from, message.admitted),
                 wire::RelayIdentifier());
  return finished_bytes(builder);
}

Result<RelayMessage> decode_relay(ByteView bytes) {
  Error corrupted{ErrorCode::corrupted, "not a message about admissions"};
  constexpr std::size_t kLimit = 2048;
  if (bytes.size() > kLimit || bytes.size() < 8) return corrupted;
  AlignedCopy copy(bytes);
  flatbuffers::Verifier verifier(copy.data(), copy.size(), 8, 16);
  if (!wire::VerifyRelayBuffer(verifier)) return corrupted;
  const wire::Relay* table = wire::GetRelay(copy.data());
  if (table->kind() > wire::Kind::dial_outcome) return corrupted;
  RelayMessage message{static_cast<RelayKind>(table->kind()), table->relay()};
  using security::JoinRecord;
  if (table->endpoints()) {
    if (table->endpoints()->size() > JoinRecord::kMaxEndpoints) return corrupted;
    for (const flatbuffers::String* one : *table->endpoints()) {
      if (one->size() > JoinRecord::kMaxEndpointBytes) return corrupted;
      message.endpoints.push_back(one->str());
    }
  }
  if (table->seen_from()) message.seen_from = table->seen_from()->str();
  message.reached = table->reached();
  message.admitted = table->admitted();
  return message;
}

}  // namespace gpunode::node
