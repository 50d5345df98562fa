#include "actors/job/job_report.hpp"

#include "runtime/job/exchange_mode.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <ranges>
#include <set>

#include "actors/health/health_actor.hpp"
#include "actors/job/job_line.hpp"
#include "actors/json_answer.hpp"

namespace gpunode::jobs {
namespace {

using nlohmann::json;

constexpr std::size_t kEventsShown = 200;
// What progress() writes.
constexpr const char* kProgressKeys[] = {"job",
                                         "name",
                                         "phase",
                                         "reason",
                                         "result_elsewhere",
                                         "step",
                                         "steps",
                                         "view",
                                         "generation",
                                         "members",
                                         "as_of",
                                         "finished_at",
                                         "finished_seconds_ago",
                                         "witnesses",
                                         "waiting_for",
                                         "stall",
                                         "hang",
                                         "ordered",
                                         "unsaved_steps",
                                         "skipped_steps",
                                         "loss",
                                         "tokens_per_second",
                                         "flops_per_second",
                                         "utilisation",
                                         "seconds_left",
                                         "sync_received_bytes",
                                         "sync_total_bytes",
                                         "sync_seconds",
                                         "sync_followed_steps",
                                         "sync_steps_behind",
                                         "validation_loss",
                                         "validation_accuracy"};

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// A node by name and id, to which more about it is added.
json about(const NodeId& node, const ClusterSnapshot& cluster, json more) {
  more["node"] = cluster.name_of(node);
  more["id"] = node.text();
  return more;
}

// `noted_by`: a member that noted it while this node was not there.
json event_json(const ReportInput& in, const JobHistory::Event& event) {
  json out = {{"at", in.ledger.times().seconds(event.time)}, {"text", event.text}};
  if (event.by != NodeId{}) out["noted_by"] = in.cluster.name_of(event.by);
  return out;
}

// Committed steps that no checkpoint holds yet: lost with the memory of the members.
std::uint64_t unsaved_steps(const ReportInput& in) {
  const std::uint64_t kept =
      std::max(in.ledger.seen().checkpoint_step, in.status.durable.name.step);
  return in.ledger.seen().committed - std::min(kept, in.ledger.seen().committed);
}

json progress(const ReportInput& in) {
  const KnownStep known = in.ledger.known(in.status, in.phase);
  json out;
  out["job"] = in.id.text();
  out["name"] = in.spec.name;
  out["phase"] = to_string(in.phase);
  if (!in.reason.empty()) out["reason"] = in.reason;
  if (in.result_elsewhere) out["result_elsewhere"] = true;
  out["step"] = known.step;
  if (known.at) out["as_of"] = as_of_json({in.ledger.times().seconds(*known.at), known.how});
  if (const auto finished = in.ledger.finished())
    out["finished_at"] = in.ledger.times().seconds(*finished);
  out["steps"] = in.spec.train.steps;
  out["view"] = in.status.view_id;
  out["generation"] = in.status.generation;
  out["members"] = in.cluster.names_of(in.status.members);
  out["witnesses"] = in.cluster.names_of(in.status.witnesses);
  out["waiting_for"] = in.cluster.names_of(in.status.waiting_for);
  if (in.status.stall)
    out["stall"] = {{"node", in.cluster.name_of(in.status.stall->node)},
                    {"waiting_for", job::to_string(in.status.stall->lack)},
                    {"step", in.status.committed + 1},
                    {"seconds", seconds(in.status.stall->lasts)}};
  if (in.status.hang)
    out["hang"] = {{"work", job::to_string(in.status.hang->work)},
                   {"seconds", seconds(in.status.hang->lasts)},
                   {"usual_seconds", seconds(in.status.hang->usual)}};
  if (in.status.ordered)
    out["ordered"] = *in.status.ordered == view::OrderKind::stop ? "stop" : "resume";
  // Of a job that is further at others, what this node made itself says nothing any more.
  if (!known.told) out["unsaved_steps"] = unsaved_steps(in);
  if (in.ledger.history().skipped() > 0)
    out["skipped_steps"] = {{"all", in.ledger.history().skipped()},
                            {"in_a_row", in.ledger.seen().skipped_in_a_row}};
  if (known.loss) out["loss"] = *known.loss;
  out["tokens_per_second"] = in.ledger.tokens_per_second();
  if (const auto rate = in.ledger.flops_per_second()) out["flops_per_second"] = *rate;
  if (const auto share = in.ledger.utilisation()) out["utilisation"] = *share;
  out["seconds_left"] = seconds(in.ledger.time_left(in.spec.train.steps));
  // How this node came to the state of the others, or is on its way there.
  if (in.status.sync_received_bytes > 0 || in.status.sync_total_bytes > 0) {
    out["sync_received_bytes"] = in.status.sync_received_bytes;
    if (in.status.sync_total_bytes > 0) out["sync_total_bytes"] = in.status.sync_total_bytes;
    out["sync_seconds"] = seconds(in.status.sync_time);
    out["sync_followed_steps"] = in.status.sync_results;
    out["sync_steps_behind"] = in.status.sync_behind;
  }
  if (auto loss = in.ledger.seen().validation_loss) out["validation_loss"] = *loss;
  if (auto share = in.ledger.seen().validation_accuracy) out["validation_accuracy"] = *share;
  return out;
}

// What a person can do about the slowest member.
std::string remedy_of(job::Cause cause) {
  switch (cause) {
    case job::Cause::compute:
      return "it computes longer than the others: more slices a step divide the work more finely";
    case job::Cause::data:
      return "it waits for its data: a faster disk or a larger cache helps";
    case job::Cause::link:
      return "its bytes come late although it computes as fast as the others: look at its link";
  }
  return {};
}

// Nodes where work waits for a processor most of the time, as they tell.
std::set<NodeId> busy_nodes(const ClusterSnapshot& cluster) {
  constexpr double kPressure = 0.5, kLoadAProcessor = 1.5;
  std::set<NodeId> busy;
  for (const DirectoryEntry& entry : cluster.entries) {
    if (entry.key != health::kHealthKey) continue;
    const auto host =
        field<json>(arguments_of(std::string(as_text(entry.value))), "host", json::object());
    const double load = field<double>(host, "load_average", 0);
    const double count = field<double>(host, "cpu_count", 0);
    const bool waits = host.contains("cpu_pressure")
                           ? field<double>(host, "cpu_pressure", 0) >= kPressure
                           : count > 0 && load >= kLoadAProcessor * count;
    if (waits) busy.insert(entry.owner);
  }
  return busy;
}

// The members of each site, once they have told where they are.
json groups_of(const job::Explanation& times, const ClusterSnapshot& cluster) {
  std::vector<std::pair<std::uint64_t, json>> groups;
  for (const job::MemberTimes& one : times.members) {
    const auto same = std::ranges::find_if(
        groups, [&](const auto& group) { return one.site != 0 && group.first == one.site; });
    json& names =
        same == groups.end() ? groups.emplace_back(one.site, json::array()).second : same->second;
    names.push_back(cluster.name_of(one.node));
  }
  json out = json::array();
  for (auto& group : groups) out.push_back(std::move(group.second));
  return out;
}

// Why no member is named.
std::string nobody_text(const job::Explanation& times) {
  return times.busy ? "the members' processors are busy with other work, which says nothing of a "
                      "member or its link"
                    : "no member stands out";
}

// Where the time of the last steps went, member by member.
json times_of(const job::Explanation& times, const ClusterSnapshot& cluster) {
  json out = {{"steps", times.steps}, {"step_seconds", times.step}};
  json& members = out["members"] = json::array();
  for (const job::MemberTimes& one : times.members)
    members.push_back(about(one.node, cluster,
                            {{"slices", one.slices},
                             {"slice_seconds", one.slice},
                             {"compute_seconds", one.compute},
                             {"data_seconds", one.data},
                             {"wait_seconds", one.wait},
                             {"exchange_seconds", one.exchange},
                             {"confirm_seconds", one.confirm},
                             {"apply_seconds", one.apply},
                             {"sent_bytes", one.sent_bytes},
                             {"received_bytes", one.received_bytes}}));
  if (times.slowest)
    out["slowest"] = about(times.slowest->node, cluster,
                           {{"cause", job::to_string(times.slowest->cause)},
                            {"lost_seconds", times.slowest->lost},
                            {"text", remedy_of(times.slowest->cause)}});
  else if (times.members.size() > 1)
    out["nobody"] = {{"busy", times.busy}, {"text", nobody_text(times)}};
  out["confirm_seconds"] = times.confirm;
  if (times.confirm_is_long && !times.busy)
    out["advice"] =
        "the last word of a step (DONE) takes more than a tenth of it: over so long a link "
        "mode = \"local\" trains with far fewer rounds";
  return out;
}

}  // namespace

std::string progress_json(const ReportInput& input) {
  json out = progress(input);
  add_ages(out, input.ledger.times().wall(input.now));
  return text_of(out);
}

std::string report_json(const ReportInput& in) {
  json out = progress(in);
  const JobLedger& ledger = in.ledger;
  out["data"] = in.spec.data.text();
  if (in.spec.data.has_validation())
    out["validation_data"] = in.spec.data.validation_set.empty()
                                 ? in.spec.data.validation_path
                                 : "data set '" + in.spec.data.validation_set + "'";
  out["nodes_wanted"] = in.spec.nodes;
  out["on_lost_quorum"] = in.spec.on_lost_quorum;
  out["seed"] = in.spec.train.seed;
  out["slices_per_step"] = in.spec.train.slices;
  out["fingerprint"] = in.spec.fingerprint;
  out["exchange_mode"] = job::facts_of(in.spec.exchange.mode).name;
  if (auto text = job::inexact_note(in.spec.exchange.mode); !text.empty())
    out["exchange_note"] = text;
  if (job::facts_of(in.spec.exchange.mode).routing.plan)
    out["exchange_groups"] = groups_of(ledger.explain(), in.cluster);
  out["carried_steps"] = in.status.carried;
  out["host_bytes_per_step"] = {{"to_device", ledger.seen().to_device_bytes},
                                {"to_host", ledger.seen().to_host_bytes}};
  if (!ledger.known(in.status, in.phase).told)
    out["state_digest"] = ledger.seen().state_digest.text();
  out["data_fingerprint"] = {{"steps", ledger.seen().committed},
                             {"hash_sum", ledger.seen().running.hash_sum.text()},
                             {"samples", ledger.seen().running.sample_count}};
  out["witnessed_from_step"] = ledger.seen().committed > 0 ? ledger.history().first() : 0;
  json& computed = out["computed"] = json::array();
  for (const auto& [node, slices] : ledger.history().slices())
    computed.push_back(about(node, in.cluster, {{"slices", slices}}));
  json& refused = out["refused"] = json::array();
  for (const auto& [node, reason] : in.refused)
    refused.push_back(about(node, in.cluster, {{"reason", reason}}));
  json& lost = out["lost_members"] = json::array();
  for (const job::LostMember& one : in.status.lost)
    lost.push_back(about(one.node, in.cluster, {{"reason", one.reason}, {"step", one.step}}));
  if (const job::Explanation times = ledger.explain(busy_nodes(in.cluster)); times.steps > 0)
    out["times"] = times_of(times, in.cluster);
  if (ledger.seen().checkpoint_step > 0)
    out["checkpoint"] = {{"step", ledger.seen().checkpoint_step},
                         {"path", ledger.seen().checkpoint_path}};
  json& damaged = out["damaged_checkpoints"] = json::array();
  for (const DamagedCheckpoint& one : in.damaged)
    damaged.push_back({{"step", one.name.step}, {"path", one.path}, {"reason", one.reason}});
  if (in.late_disk)
    out["late_disk"] = {{"work", to_string(in.late_disk->task.work)},
                        {"step", in.late_disk->task.step},
                        {"seconds", seconds(in.late_disk->lasts)},
                        {"usual_seconds", seconds(in.late_disk->usual)}};
  if (in.status.durable.name.step > 0)
    out["durable"] = {{"step", in.status.durable.name.step}, {"nodes", in.status.holders}};
  json& events = out["events"] = json::array();
  const std::size_t count = ledger.history().events().size();
  for (const JobHistory::Event& event :
       ledger.history().events() | std::views::drop(count - std::min(count, kEventsShown)))
    events.push_back(event_json(in, event));
  add_ages(out, in.ledger.times().wall(in.now));
  return text_of(out);
}

json told_part(const std::string& command, json report) {
  if (command == "job.show") return report;
  json out = json::object();
  for (const char* key : kProgressKeys)
    if (report.contains(key)) out[key] = report[key];
  if (command == "job.log" && report.contains("events")) out["events"] = report["events"];
  return out;
}

void add_ages(json& report, std::chrono::system_clock::time_point wall) {
  const double now = std::chrono::duration<double>(wall.time_since_epoch()).count();
  const auto add = [&](json& one) {
    if (one.is_object() && one.contains("at"))
      one["seconds_ago"] = std::max(0.0, now - field<double>(one, "at", now));
  };
  if (report.contains("events") && report["events"].is_array())
    for (json& event : report["events"]) add(event);
  if (report.contains("as_of")) add(report["as_of"]);
  if (report.contains("finished_at"))
    report["finished_seconds_ago"] = std::max(0.0, now - field<double>(report, "finished_at", now));
}

std::string log_json(const ReportInput& in) {
  json out = progress(in);
  add_ages(out, in.ledger.times().wall(in.now));
  out["now"] = in.ledger.times().seconds(in.now);
  json &events = out["events"] = json::array(), &commits = out["commits"] = json::array();
  for (const JobHistory::Event& event : in.ledger.history().events())
    events.push_back(event_json(in, event));
  for (const JobHistory::Commit& commit : in.ledger.history().commits()) {
    const bool early = in.status.needs_lease && commit.view_id == in.status.view_id &&
                       commit.step > in.status.reported;
    if (early) continue;
    json line = {{"at", in.ledger.times().seconds(commit.time)},
                 {"step", commit.step},
                 {"view", commit.view_id}};
    if (commit.state != Digest{}) line["state_digest"] = commit.state.text();
    if (commit.loss) line["loss"] = *commit.loss;
    commits.push_back(std::move(line));
  }
  return text_of(out);
}

}  // namespace gpunode::jobs
