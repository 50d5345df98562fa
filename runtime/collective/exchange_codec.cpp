#include "runtime/collective/exchange_codec.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/aligned_copy.hpp"
#include "schemas/exchange_generated.h"

namespace gpunode::collective {

namespace wire = gpunode::wire::exchange;

namespace {

constexpr std::size_t kMaxDepth = 4;
constexpr std::size_t kMaxTables = 4;
constexpr std::size_t kMaxBody = 1 << 20;

wire::Hash to_wire(const Digest& digest) {
  return {digest.high, digest.low};
}
wire::DataFingerprint to_wire(const DataFingerprint& data_fingerprint) {
  return {to_wire(data_fingerprint.hash_sum), data_fingerprint.sample_count};
}
Digest from_wire(const wire::Hash& hash) {
  return {hash.high(), hash.low()};
}
DataFingerprint from_wire(const wire::DataFingerprint& data_fingerprint) {
  return {from_wire(data_fingerprint.hash_sum()), data_fingerprint.sample_count()};
}

Error corrupted(const char* cause) {
  return {ErrorCode::corrupted, std::string("exchange message: ") + cause};
}

using Encoded = std::pair<wire::Message, flatbuffers::Offset<void>>;

Encoded encode(flatbuffers::FlatBufferBuilder& builder, const PartialChunk& partial) {
  wire::DataFingerprint data_fingerprint = to_wire(partial.data_fingerprint);
  return {wire::Message::Partial, wire::CreatePartial(builder, partial.chunk, partial.node.level,
                                                      partial.node.index, &data_fingerprint)
                                      .Union()};
}
Encoded encode(flatbuffers::FlatBufferBuilder& builder, const ResultChunk& result) {
  wire::DataFingerprint data_fingerprint = to_wire(result.data_fingerprint);
  return {wire::Message::Result,
          wire::CreateResult(builder, result.chunk, &data_fingerprint).Union()};
}
Encoded encode(flatbuffers::FlatBufferBuilder& builder, const Done& done) {
  wire::Hash result = to_wire(done.result);
  wire::DataFingerprint data_fingerprint = to_wire(done.data_fingerprint);
  const StepTimes& times = done.times;
  wire::Before before(times.before.confirm_us, times.before.apply_us, times.before.sent_kib,
                      times.before.received_kib);
  return {wire::Message::Done,
          wire::CreateDone(builder, &result, &data_fingerprint, times.compute.compute_us,
                           times.compute.data_us, times.compute.slices, times.compute.workers,
                           times.gather_us, times.last_rank, times.last_us, &before, times.site,
                           times.has_group)
              .Union()};
}
Encoded encode(flatbuffers::FlatBufferBuilder& builder, const Need& need) {
  return {wire::Message::Need,
          wire::CreateNeedDirect(builder, &need.partial_chunks, &need.result_chunks, need.done)
              .Union()};
}
SharedBytes payload_of(const ExchangeMessage& message) {
  if (const auto* partial = std::get_if<PartialChunk>(&message)) return partial->payload;
  if (const auto* result = std::get_if<ResultChunk>(&message)) return result->payload;
  return {};
}

bool read_chunks(const flatbuffers::Vector<std::uint32_t>* list, std::uint32_t chunk_count,
                 std::vector<std::uint32_t>& chunks) {
  if (!list) return true;
  if (list->size() > chunk_count) return false;
  chunks.assign(list->begin(), list->end());
  return std::ranges::all_of(chunks, [&](std::uint32_t chunk) { return chunk < chunk_count; });
}

Result<ExchangeMessage> read_partial(const wire::Partial& partial, SharedBytes payload,
                                     std::uint32_t chunk_count) {
  if (!partial.data_fingerprint()) return corrupted("partial without a data fingerprint");
  if (partial.chunk() >= chunk_count) return corrupted("chunk number out of range");
  return ExchangeMessage(PartialChunk{partial.chunk(),
                                      {partial.level(), partial.index()},
                                      from_wire(*partial.data_fingerprint()),
                                      std::move(payload)});
}

Result<ExchangeMessage> read_result(const wire::Result& result, SharedBytes payload,
                                    std::uint32_t chunk_count) {
  if (!result.data_fingerprint()) return corrupted("result without a data fingerprint");
  if (result.chunk() >= chunk_count) return corrupted("chunk number out of range");
  return ExchangeMessage(
      ResultChunk{result.chunk(), from_wire(*result.data_fingerprint()), std::move(payload)});
}

Result<ExchangeMessage> read_done(const wire::Done& done) {
  if (!done.result() || !done.data_fingerprint()) return corrupted("DONE without its digests");
  StepTimes times;
  times.compute = {done.compute_us(), done.data_us(), done.slices(), done.workers()};
  times.gather_us = done.gather_us();
  times.last_rank = done.last_rank();
  times.last_us = done.last_us();
  if (const wire::Before* before = done.before())
    times.before = {before->confirm_us(), before->apply_us(), before->sent_kib(),
                    before->received_kib()};
  times.site = done.site();
  times.has_group = done.has_group();
  return ExchangeMessage(
      Done{from_wire(*done.result()), from_wire(*done.data_fingerprint()), times});
}

Result<ExchangeMessage> read_need(const wire::Need& wanted, std::uint32_t chunk_count) {
  Need need;
  need.done = wanted.done();
  if (!read_chunks(wanted.partial_chunks(), chunk_count, need.partial_chunks) ||
      !read_chunks(wanted.result_chunks(), chunk_count, need.result_chunks))
    return corrupted("NEED for chunks that do not exist");
  return ExchangeMessage(std::move(need));
}

Result<NamedExchange> decode_aligned(ByteView body, SharedBytes payload,
                                     std::uint32_t chunk_count) {
  if (body.size() > kMaxBody) return corrupted("too long");
  const auto* data = reinterpret_cast<const std::uint8_t*>(body.data());
  flatbuffers::Verifier verifier(data, body.size(), kMaxDepth, kMaxTables);
  if (!is_exchange_body(body) || !wire::VerifyExchangeBuffer(verifier))
    return corrupted("not a valid body");
  const wire::Exchange& exchange = *wire::GetExchange(data);
  if (!exchange.plan()) return corrupted("no digest of the slice plan");
  bool carries = exchange.message_type() == wire::Message::Partial ||
                 exchange.message_type() == wire::Message::Result;
  if (!carries && !payload.empty()) return corrupted("a payload where none belongs");
  if (!exchange.message()) return corrupted("no message");

  Result<ExchangeMessage> message = [&]() -> Result<ExchangeMessage> {
    switch (exchange.message_type()) {
      case wire::Message::Partial:
        return read_partial(*exchange.message_as_Partial(), std::move(payload), chunk_count);
      case wire::Message::Result:
        return read_result(*exchange.message_as_Result(), std::move(payload), chunk_count);
      case wire::Message::Done:
        return read_done(*exchange.message_as_Done());
      case wire::Message::Need:
        return read_need(*exchange.message_as_Need(), chunk_count);
      default:
        return corrupted("a kind of message that this version does not know");
    }
  }();
  if (!message) return message.error();
  HistoryId history;
  if (exchange.history()) history = {exchange.history()->turn(), exchange.history()->mark()};
  return NamedExchange{{exchange.view_id(), exchange.step(), history, from_wire(*exchange.plan())},
                       std::move(*message)};
}

}  // namespace

bool is_exchange_body(ByteView body) {
  constexpr std::size_t kRootAndIdentifier = 8;
  return body.size() >= kRootAndIdentifier &&
         as_text(body.subspan(4, 4)) == wire::ExchangeIdentifier();
}

EncodedMessage encode_exchange(const ExchangeName& name, const ExchangeMessage& message) {
  flatbuffers::FlatBufferBuilder builder(256);
  auto [type, offset] =
      std::visit([&](const auto& value) { return encode(builder, value); }, message);
  wire::Hash plan = to_wire(name.plan);
  wire::History history(name.history.mark, name.history.turn);
  wire::FinishExchangeBuffer(builder, wire::CreateExchange(builder, name.view_id, name.step,
                                                           &history, &plan, type, offset));
  return {finished_bytes(builder), payload_of(message)};
}

Result<NamedExchange> decode_exchange(ByteView body, SharedBytes payload,
                                      std::uint32_t chunk_count) {
  if (reinterpret_cast<std::uintptr_t>(body.data()) % alignof(std::uint64_t) == 0)
    return decode_aligned(body, std::move(payload), chunk_count);
  Bytes aligned = to_bytes(body);
  return decode_aligned(aligned, std::move(payload), chunk_count);
}

}  // namespace gpunode::collective
