// Job messages to wire frames and back: a small FlatBuffers body (schemas/job.fbs, or
// exchange.fbs for a part of a step's all-reduce) and a payload that is never copied here. What a
// peer sends is verified before a field is read; decoding never throws and never reaches a CHECK.
#pragma once

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"
#include "runtime/collective/exchange_codec.hpp"
#include "runtime/job/job_message.hpp"

namespace gpunode::job {

collective::EncodedMessage encode_message(const JobMessage& message);

// `job` is the one that the frame was addressed to (its stream), `element_count` its vector's
// length. A part of the exchange does not carry the sender's boot: it reads 0. Fails with
// corrupted: not a valid body, out of a limit, another job, a payload where none belongs.
Result<JobMessage> decode_message(ByteView body, SharedBytes payload, const JobId& job,
                                  std::uint64_t element_count);

}  // namespace gpunode::job
