// Message to wire and back, over schemas/membership.fbs. The decoder faces strangers' bytes: it
// copies them to aligned memory, verifies them with limits, and checks every count and length.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/membership/membership_message.hpp"

namespace gpunode::membership {

inline constexpr std::size_t kMaxWireBytes = 256 * 1024;

Bytes encode(const Message& message);
// Fails with corrupted (not a message of this kind) or resource_exhausted (a bound is exceeded).
Result<Message> decode(ByteView bytes);

// A record alone, for the list of last known peers on disk and for join answers.
Bytes encode_record(const MemberRecord& record);
Result<MemberRecord> decode_record(ByteView bytes);

}  // namespace gpunode::membership
