#include "runtime/transport/detail/envelope_codec.hpp"

#include <flatbuffers/flatbuffers.h>

#include "runtime/base/aligned_copy.hpp"
#include "schemas/envelope_generated.h"

namespace gpunode::transport::detail {

namespace wire = gpunode::wire::envelope;

namespace {

flatbuffers::Offset<flatbuffers::Vector<std::uint8_t>> put(flatbuffers::FlatBufferBuilder& builder,
                                                           ByteView bytes) {
  return builder.CreateVector(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

template <std::size_t N>
bool take(const flatbuffers::Vector<std::uint8_t>* from, std::array<std::byte, N>& to) {
  if (!from) return true;
  if (from->size() != N) return false;
  std::memcpy(to.data(), from->data(), N);
  return true;
}

// Nothing for bytes that do not verify. The table lies in `aligned`.
const wire::Envelope* verified(ByteView bytes, Bytes& aligned) {
  if (bytes.size() < 8 || bytes.size() > kMaxEnvelopeBytes) return nullptr;
  aligned = to_bytes(bytes);
  const auto* data = reinterpret_cast<const std::uint8_t*>(aligned.data());
  flatbuffers::Verifier verifier(data, aligned.size(), 8, 256);
  return wire::VerifyEnvelopeBuffer(verifier) ? wire::GetEnvelope(data) : nullptr;
}

}  // namespace

Bytes encode_envelope(const Envelope& envelope) {
  flatbuffers::FlatBufferBuilder builder(256);
  flatbuffers::Offset<flatbuffers::Vector<std::uint8_t>> key_share, ticket, nonce;
  if (envelope.kind == Kind::bulk_request || envelope.kind == Kind::bulk_ticket) {
    key_share = put(builder, envelope.key_share);
    ticket = put(builder, as_bytes(envelope.ticket));
    nonce = put(builder, envelope.nonce);
  }
  wire::FinishEnvelopeBuffer(
      builder, wire::CreateEnvelope(builder, kProtocolMajor, static_cast<wire::Kind>(envelope.kind),
                                    envelope.topic, envelope.stream, envelope.session, envelope.seq,
                                    envelope.boot, envelope.greeting, envelope.payload_bytes,
                                    envelope.plain, key_share, ticket, nonce));
  return finished_bytes(builder);
}

std::optional<Envelope> decode_envelope(ByteView bytes) {
  Bytes aligned;
  const wire::Envelope* table = verified(bytes, aligned);
  if (!table) return std::nullopt;
  auto kind = static_cast<std::uint8_t>(table->kind());
  if (table->major() != kProtocolMajor || kind == 0 ||
      kind > static_cast<std::uint8_t>(Kind::bulk_ticket)) {
    return std::nullopt;
  }
  Envelope envelope;
  envelope.kind = static_cast<Kind>(kind);
  envelope.topic = table->topic();
  envelope.stream = table->stream();
  envelope.session = table->session();
  envelope.seq = table->seq();
  envelope.boot = table->boot();
  envelope.greeting = table->greeting();
  envelope.payload_bytes = table->payload_bytes();
  envelope.plain = table->plain();
  if (!take(table->key_share(), envelope.key_share) || !take(table->nonce(), envelope.nonce)) {
    return std::nullopt;
  }
  if (const auto* ticket = table->ticket()) {
    if (ticket->size() > 255) return std::nullopt;
    envelope.ticket.assign(reinterpret_cast<const char*>(ticket->data()), ticket->size());
  }
  return envelope;
}

std::uint16_t envelope_major(ByteView bytes) {
  Bytes aligned;
  const wire::Envelope* table = verified(bytes, aligned);
  return table ? table->major() : 0;
}

}  // namespace gpunode::transport::detail
