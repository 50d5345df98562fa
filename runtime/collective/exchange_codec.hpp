// Exchange messages to wire frames and back: a small FlatBuffers body (schemas/exchange.fbs) that
// names view, step and plan, and the chunk's floats as a payload that is never copied here. What a
// peer sends is verified before a field is read; decoding never throws and never reaches a CHECK.
#pragma once

#include <cstdint>

#include "runtime/base/bytes.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"
#include "runtime/collective/exchange_message.hpp"

namespace gpunode::collective {

// Which exchange a message belongs to.
struct ExchangeName {
  std::uint64_t view_id = 0;
  std::uint64_t step = 0;
  HistoryId history;  // of the view
  Digest plan;        // of the sender's slice plan; an owner that sees another freezes the view
  bool operator==(const ExchangeName&) const = default;
};

// Of an exchange or of a job.
struct EncodedMessage {
  Bytes body;
  SharedBytes payload;  // empty for all but chunks and parts of a state
};

struct NamedExchange {
  ExchangeName name;
  ExchangeMessage message;
};

// True for bodies that carry an exchange message, by their file identifier alone.
bool is_exchange_body(ByteView body);

EncodedMessage encode_exchange(const ExchangeName& name, const ExchangeMessage& message);

// `chunk_count` is the receiver's own number of chunks; a chunk number or a list beyond it is
// refused. Fails with corrupted: not a valid body, or a payload where none belongs.
Result<NamedExchange> decode_exchange(ByteView body, SharedBytes payload,
                                      std::uint32_t chunk_count);

}  // namespace gpunode::collective
