// What admission actors tell each other, to and from bytes (schemas/relay.fbs).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::node {

enum class RelayKind : std::uint8_t {
  credentials = 0,
  relay_request = 1,
  relay_answer = 2,
  audit_head = 3,
  summary = 4,
  dial_wish = 5,
  dial_outcome = 6
};
// The header; credentials, their summary, the join frame or the head of an audit log travel beside it as
// the message's payload.
struct RelayMessage {
  RelayKind kind = RelayKind::credentials;
  std::uint64_t relay = 0;                  // 0 for those that are of no relay
  std::vector<std::string> endpoints = {};  // of a dial_wish
  bool reached = false;                     // of a dial_outcome, as is seen_from
  std::string seen_from = {};
  bool admitted = false;  // of a relay_answer
};

Bytes encode(const RelayMessage& message);
// Fails with corrupted; never throws.
Result<RelayMessage> decode_relay(ByteView bytes);

}  // namespace gpunode::node
