#include "actors/node/node_metrics.hpp"

#include <algorithm>
#include <map>

#include "actors/node/endpoints.hpp"
#include "actors/node/local_address.hpp"
#include "runtime/probe/process_probe.hpp"

namespace gpunode::node {
namespace {

void record_nodes(telemetry::Registry& metrics, const ClusterSnapshot& cluster) {
  std::map<PeerHealth, double> count;
  for (const NodeInfo& node : cluster.nodes) ++count[node.health];
  for (const PeerHealth health :
       {PeerHealth::alive, PeerHealth::suspect, PeerHealth::dead, PeerHealth::left})
    metrics
        .gauge("gpunode_nodes", "Nodes of the cluster as this one sees them, itself included",
               {{"state", std::string(to_string(health))}})
        .set(count[health]);
}

void record_link(telemetry::Registry& metrics, const transport::Link& link) {
  for (auto [lane, label] :
       {std::pair(transport::Lane::control, "control"), std::pair(transport::Lane::bulk, "bulk")}) {
    const transport::LinkCounters counters = link.counters(lane);
    const auto raise = [&](const char* name, const char* help, std::uint64_t total) {
      metrics.counter(name, help, {{"lane", label}}).raise_to(total);
    };
    raise("gpunode_link_sent_bytes_total", "Bytes sent to other nodes", counters.bytes_sent);
    raise("gpunode_link_received_bytes_total", "Bytes received from other nodes",
          counters.bytes_received);
    raise("gpunode_link_sent_frames_total", "Frames sent to other nodes", counters.frames_sent);
    raise("gpunode_link_received_frames_total", "Frames received from other nodes",
          counters.frames_received);
    raise("gpunode_link_dropped_frames_total", "Frames thrown away unparsed",
          counters.frames_dropped);
  }
}

// Under the names that every client library of Prometheus gives them.
void record_process(telemetry::Registry& metrics) {
  const probe::ProcessSample sample = probe::sample_process();
  const auto set = [&](const char* name, const char* help, const auto& value) {
    if (value) metrics.gauge(name, help).set(static_cast<double>(*value));
  };
  if (sample.cpu_seconds)
    metrics.seconds("process_cpu_seconds_total", "Total user and system CPU time spent in seconds")
        .raise_to(*sample.cpu_seconds);
  set("process_start_time_seconds", "Start time of the process since unix epoch in seconds",
      sample.start_unix_seconds);
  set("process_resident_memory_bytes", "Resident memory size in bytes", sample.resident_bytes);
  set("process_virtual_memory_bytes", "Virtual memory size in bytes", sample.virtual_bytes);
  set("process_open_fds", "Number of open file descriptors", sample.open_files);
  set("process_max_fds", "Maximum number of open file descriptors", sample.most_files);
}

}  // namespace

std::string metrics_text(const MetricsSources& sources) {
  telemetry::Registry& metrics = *sources.registry;
  metrics
      .gauge("gpunode_build_info", "1; its label is the version of gpunode",
             {{"version", sources.version}})
      .set(1);
  record_process(metrics);
  record_nodes(metrics, *sources.cluster->read());
  record_link(metrics, *sources.link);
  sources.checkpoints->record(metrics, sources.clock->wall());
  return metrics.prometheus_text();
}

Result<std::unique_ptr<http::Server>> serve_metrics(const std::string& address,
                                                    std::function<std::string()> text) {
  const auto place = parse_local_address("--metrics", address);
  if (!place) return place.error();
  http::ServerOptions options;
  options.listen = *place;
  options.idle = Duration::zero();
  auto server = http::Server::open(
      options, [text = std::move(text)](const http::Request& request) -> http::Answer {
        if (request.path != "/metrics")
          return {.status = 404, .body = "there is nothing but /metrics\n"};
        if (request.method != "GET" && request.method != "HEAD")
          return {.status = 405, .body = "only GET\n", .headers = {{"Allow", "GET, HEAD"}}};
        return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = text()};
      });
  if (!server) return server.error().within("--metrics");
  return server;
}

}  // namespace gpunode::node
