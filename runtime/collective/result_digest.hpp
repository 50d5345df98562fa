// The digest that DONE carries, from a result that is whole: for who did not sum it chunk by chunk,
// as a learner that gets results of steps it took no part in. One pass over the bytes.
#pragma once

#include <functional>
#include <span>

#include "runtime/base/digest.hpp"
#include "runtime/collective/exchange_message.hpp"

namespace gpunode::collective {

// Equal to AllReduce::result_digest() of the same result, layout and samples.
Digest result_digest_of(const ChunkLayout& layout, std::span<const float> result,
                        const DataFingerprint& data_fingerprint);
// The same where the digests of the chunks are known.
Digest result_digest_of(const ChunkLayout& layout,
                        const std::function<Digest(std::uint32_t chunk)>& digest_of_chunk,
                        const DataFingerprint& data_fingerprint);

}  // namespace gpunode::collective
