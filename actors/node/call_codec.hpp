// Headers of calls between nodes, to and from bytes (schemas/call.fbs).
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::node {

struct CallHeader {
  std::string name;  // at most 256 characters
  std::uint32_t timeout_ms = 0;
};
struct ReplyHeader {
  bool ok = true;
  Error error;  // of a failure
};
using CallMessage = std::variant<CallHeader, ReplyHeader>;

Bytes encode(const CallMessage& message);
// Fails with corrupted; never throws.
Result<CallMessage> decode_call(ByteView bytes);

}  // namespace gpunode::node
