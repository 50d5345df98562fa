#include "actors/node/call_codec.hpp"

#include "runtime/base/aligned_copy.hpp"
#include "schemas/call_generated.h"

namespace gpunode::node {

namespace wire = gpunode::wire::call;

namespace {

constexpr std::size_t kMaxHeaderBytes = 16 * 1024, kMaxDetailBytes = 4096;
constexpr std::string_view kCut = " [cut]";

}  // namespace

Bytes encode(const CallMessage& message) {
  flatbuffers::FlatBufferBuilder builder(256);
  flatbuffers::Offset<void> body;
  wire::Body kind;
  if (const auto* call = std::get_if<CallHeader>(&message)) {
    kind = wire::Body::Call;
    body = wire::CreateCall(builder, builder.CreateString(call->name), call->timeout_ms).Union();
  } else {
    const auto& reply = std::get<ReplyHeader>(message);
    kind = wire::Body::Reply;
    std::string detail = reply.error.detail;
    if (detail.size() > kMaxDetailBytes)
      detail = detail.substr(0, kMaxDetailBytes - kCut.size()).append(kCut);
    body = wire::CreateReply(builder, reply.ok, static_cast<std::uint16_t>(reply.error.code),
                             builder.CreateString(detail), reply.not_run, reply.lost, reply.unsent)
               .Union();
  }
  builder.Finish(wire::CreateEnvelope(builder, kind, body), wire::EnvelopeIdentifier());
  return finished_bytes(builder);
}

Result<CallMessage> decode_call(ByteView bytes) {
  Error corrupted{ErrorCode::corrupted, "not the header of a call"};
  if (bytes.size() > kMaxHeaderBytes || bytes.size() < 8) return corrupted;
  AlignedCopy copy(bytes);
  flatbuffers::Verifier verifier(copy.data(), copy.size(), 8, 16);
  if (!wire::VerifyEnvelopeBuffer(verifier)) return corrupted;
  const wire::Envelope* envelope = wire::GetEnvelope(copy.data());
  if (const wire::Call* call = envelope->body_as_Call()) {
    if (call->name()->size() == 0 || call->name()->size() > kMaxNameBytes) return corrupted;
    return CallMessage(CallHeader{call->name()->str(), call->timeout_ms()});
  }
  const wire::Reply* reply = envelope->body_as_Reply();
  if (!reply) return corrupted;
  ReplyHeader header;
  header.ok = reply->ok();
  header.not_run = reply->not_run();
  header.lost = reply->lost();
  header.unsent = reply->unsent();
  auto code = reply->code();
  header.error.code = code <= static_cast<std::uint16_t>(ErrorCode::internal)
                          ? static_cast<ErrorCode>(code)
                          : ErrorCode::internal;
  header.error.detail = flatbuffers::GetString(reply->detail());
  return CallMessage(header);
}

}  // namespace gpunode::node
