// In which order the messages of a job leave for a peer where more wait than the link carries: what
// settles a step before the bytes of the next, gradients before states that somebody merely reads.
#pragma once

#include <cstdint>

#include "runtime/job/job_message.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::jobs {

transport::Urgency urgency_of(const job::JobBody& body);

// Of what waits for a peer a step goes before the next, as its DONE is waited for. In a step
// partial sums go before results, as others wait for them to send on; but where the next forward
// begins on parts of the sum, the first chunks go before others whatever they are: backward makes
// them last, forward needs them first. DONE follows what it is about.
std::uint64_t order_of(const job::JobBody& body, bool speculates);

}  // namespace gpunode::jobs
