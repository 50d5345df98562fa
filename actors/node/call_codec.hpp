// Headers of calls between nodes, to and from bytes (schemas/call.fbs).
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::node {

inline constexpr std::size_t kMaxNameBytes = 248;  // as much as an entry of the directory holds

struct CallHeader {
  std::string name;  // at most kMaxNameBytes
  std::uint32_t timeout_ms = 0;
};
struct ReplyHeader {
  bool ok = true;
  Error error;           // of a failure
  bool not_run = false;  // it was refused before its handler ran: another node may be asked
  bool lost = false;     // its handler has ended without an answer, and may have run
  bool unsent = false;   // it has run, and what it answered cannot be sent
};
using CallMessage = std::variant<CallHeader, ReplyHeader>;

Bytes encode(const CallMessage& message);
// Fails with corrupted; never throws.
Result<CallMessage> decode_call(ByteView bytes);

}  // namespace gpunode::node
