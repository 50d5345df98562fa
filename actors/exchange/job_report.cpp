#include "actors/exchange/job_report.hpp"

#include <nlohmann/json.hpp>

namespace gpunode::exchange {
namespace {

using nlohmann::json;

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

json names(const std::vector<NodeId>& nodes, const ClusterSnapshot& cluster) {
  json list = json::array();
  for (const NodeId& node : nodes) list.push_back(cluster.name_of(node));
  return list;
}

// Names come from peers and paths from files: what is no UTF-8 in them is replaced.
std::string text_of(const json& out) {
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

json progress(const ReportInput& in) {
  json out;
  out["job"] = in.id.text();
  out["name"] = in.spec.name;
  out["phase"] = in.phase;
  if (!in.reason.empty()) out["reason"] = in.reason;
  out["step"] = in.ledger.committed();
  out["steps"] = in.spec.train.steps;
  out["view"] = in.status.view_id;
  out["members"] = names(in.status.members, in.cluster);
  out["waiting_for"] = names(in.status.waiting_for, in.cluster);
  out["loss"] = in.ledger.loss();
  out["tokens_per_second"] = in.ledger.tokens_per_second();
  out["seconds_left"] = seconds(in.ledger.time_left(in.spec.train.steps));
  if (in.status.sync_total_bytes > 0 && in.status.phase == job::Phase::syncing) {
    out["sync_received_bytes"] = in.status.sync_received_bytes;
    out["sync_total_bytes"] = in.status.sync_total_bytes;
    out["sync_seconds"] = seconds(in.status.in_phase);
  }
  if (auto loss = in.ledger.validation_loss()) out["validation_loss"] = *loss;
  return out;
}

}  // namespace

std::string progress_json(const ReportInput& input) {
  return text_of(progress(input));
}

std::string report_json(const ReportInput& in) {
  json out = progress(in);
  const JobLedger& ledger = in.ledger;
  out["data"] = in.spec.data.path;
  out["nodes_wanted"] = in.spec.nodes;
  out["seed"] = in.spec.train.seed;
  out["slices_per_step"] = in.spec.train.slices;
  out["fingerprint"] = in.spec.fingerprint;
  out["state_digest"] = ledger.state_digest().text();
  out["fed"] = {{"hash_sum", ledger.running().hash_sum.text()},
                {"samples", ledger.running().sample_count}};
  out["witnessed_from_step"] = ledger.witnessed_from();
  json computed = json::array();
  for (const auto& [node, slices] : ledger.slices())
    computed.push_back(
        {{"node", in.cluster.name_of(node)}, {"id", node.text()}, {"slices", slices}});
  out["computed"] = computed;
  if (ledger.checkpoint_step() > 0)
    out["checkpoint"] = {{"step", ledger.checkpoint_step()}, {"path", ledger.checkpoint_path()}};
  json events = json::array();
  for (const JobLedger::Event& event : ledger.events())
    events.push_back({{"seconds_ago", seconds(in.now - event.time)}, {"text", event.text}});
  out["events"] = events;
  return text_of(out);
}

}  // namespace gpunode::exchange
