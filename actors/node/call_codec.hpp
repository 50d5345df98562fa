// Headers of calls between nodes, to and from bytes (schemas/call.fbs).
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::node {

inline constexpr std::size_t kMaxNameBytes = 256;

struct CallHeader {
  std::string name;  // at most kMaxNameBytes
  std::uint32_t timeout_ms = 0;
};
struct ReplyHeader {
  bool ok = true;
  Error error;           // of a failure
  bool not_run = false;  // it was refused before its handler ran: another node may be asked
};
using CallMessage = std::variant<CallHeader, ReplyHeader>;

Bytes encode(const CallMessage& message);
// Fails with corrupted; never throws.
Result<CallMessage> decode_call(ByteView bytes);

}  // namespace gpunode::node
