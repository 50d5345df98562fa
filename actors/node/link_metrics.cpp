#include "actors/node/link_metrics.hpp"

#include <utility>

namespace gpunode::node {

void record_links(telemetry::Registry& metrics, const transport::Link& link) {
  for (auto [lane, label] :
       {std::pair(transport::Lane::control, "control"), std::pair(transport::Lane::bulk, "bulk")}) {
    transport::LinkCounters counters = link.counters(lane);
    telemetry::Labels labels{{"lane", label}};
    metrics.gauge("gpunode_link_sent_bytes", "Bytes sent since the start", labels)
        .set(static_cast<double>(counters.bytes_sent));
    metrics.gauge("gpunode_link_received_bytes", "Bytes received since the start", labels)
        .set(static_cast<double>(counters.bytes_received));
    metrics.gauge("gpunode_link_dropped_frames", "Frames thrown away unparsed", labels)
        .set(static_cast<double>(counters.frames_dropped));
  }
}

}  // namespace gpunode::node
