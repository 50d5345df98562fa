#include "actors/job/job_report.hpp"

#include "runtime/job/exchange_mode.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace gpunode::jobs {
namespace {

using nlohmann::json;

constexpr std::size_t kEventsShown = 200;

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Rounded to microseconds: more digits would only be noise.
double since_1970(const ReportInput& in, Time time) {
  auto then = in.wall.time_since_epoch() - (in.now - time);
  return static_cast<double>(std::chrono::duration_cast<std::chrono::microseconds>(then).count()) /
         1e6;
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

// Committed steps that no checkpoint holds yet: lost with the memory of the members.
std::uint64_t unsaved_steps(const ReportInput& in) {
  const std::uint64_t kept = std::max(in.ledger.checkpoint_step(), in.status.durable.name.step);
  return in.ledger.committed() - std::min(kept, in.ledger.committed());
}

json progress(const ReportInput& in) {
  json out;
  out["job"] = in.id.text();
  out["name"] = in.spec.name;
  out["phase"] = to_string(in.phase);
  if (!in.reason.empty()) out["reason"] = in.reason;
  if (in.result_elsewhere) out["result_elsewhere"] = true;
  // Where a lease is needed, only what was committed while it held.
  out["step"] = in.status.needs_lease ? in.status.reported
                                      : std::max(in.ledger.committed(), in.status.reported);
  out["steps"] = in.spec.train.steps;
  out["view"] = in.status.view_id;
  out["generation"] = in.status.generation;
  out["members"] = names(in.status.members, in.cluster);
  out["witnesses"] = names(in.status.witnesses, in.cluster);
  out["waiting_for"] = names(in.status.waiting_for, in.cluster);
  if (in.status.stall)
    out["stall"] = {{"node", in.cluster.name_of(in.status.stall->node)},
                    {"waiting_for", job::to_string(in.status.stall->lack)},
                    {"step", in.status.committed + 1},
                    {"seconds", seconds(in.status.stall->lasts)}};
  if (in.status.hang)
    out["hang"] = {{"work", job::to_string(in.status.hang->work)},
                   {"seconds", seconds(in.status.hang->lasts)},
                   {"usual_seconds", seconds(in.status.hang->usual)}};
  out["unsaved_steps"] = unsaved_steps(in);
  if (in.ledger.skipped() > 0)
    out["skipped_steps"] = {{"all", in.ledger.skipped()},
                            {"in_a_row", in.ledger.skipped_in_a_row()}};
  if (auto loss = in.ledger.loss()) out["loss"] = *loss;
  out["tokens_per_second"] = in.ledger.tokens_per_second();
  out["seconds_left"] = seconds(in.ledger.time_left(in.spec.train.steps));
  // How this node came to the state of the others, or is on its way there.
  if (in.status.sync_received_bytes > 0 || in.status.sync_total_bytes > 0) {
    out["sync_received_bytes"] = in.status.sync_received_bytes;
    if (in.status.sync_total_bytes > 0) out["sync_total_bytes"] = in.status.sync_total_bytes;
    out["sync_seconds"] = seconds(in.status.sync_time);
    out["sync_followed_steps"] = in.status.sync_results;
    out["sync_steps_behind"] = in.status.sync_behind;
  }
  if (auto loss = in.ledger.validation_loss()) out["validation_loss"] = *loss;
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

// Where the time of the last steps went, member by member.
json times_of(const job::Explanation& times, const ClusterSnapshot& cluster) {
  json out = {{"steps", times.steps}, {"step_seconds", times.step}};
  json members = json::array();
  for (const job::MemberTimes& one : times.members)
    members.push_back({{"node", cluster.name_of(one.node)},
                       {"id", one.node.text()},
                       {"slices", one.slices},
                       {"slice_seconds", one.slice},
                       {"compute_seconds", one.compute},
                       {"data_seconds", one.data},
                       {"wait_seconds", one.wait},
                       {"exchange_seconds", one.exchange},
                       {"confirm_seconds", one.confirm},
                       {"apply_seconds", one.apply},
                       {"sent_bytes", one.sent_bytes},
                       {"received_bytes", one.received_bytes}});
  out["members"] = members;
  if (times.slowest)
    out["slowest"] = {{"node", cluster.name_of(times.slowest->node)},
                      {"id", times.slowest->node.text()},
                      {"cause", job::to_string(times.slowest->cause)},
                      {"lost_seconds", times.slowest->lost},
                      {"text", remedy_of(times.slowest->cause)}};
  out["confirm_seconds"] = times.confirm;
  if (times.confirm_is_long)
    out["advice"] =
        "the last word of a step (DONE) takes more than a tenth of it: over so long a link "
        "mode = \"local\" trains with far fewer rounds";
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
  out["on_lost_quorum"] = in.spec.on_lost_quorum;
  out["seed"] = in.spec.train.seed;
  out["slices_per_step"] = in.spec.train.slices;
  out["fingerprint"] = in.spec.fingerprint;
  out["exchange_mode"] = job::facts_of(in.spec.exchange.mode).name;
  if (auto text = job::inexact_note(in.spec.exchange.mode); !text.empty())
    out["exchange_note"] = text;
  if (job::facts_of(in.spec.exchange.mode).routing.plan)
    out["exchange_groups"] = groups_of(ledger.explain(), in.cluster);
  out["state_digest"] = ledger.state_digest().text();
  out["data_fingerprint"] = {{"steps", ledger.committed()},
                             {"hash_sum", ledger.running().hash_sum.text()},
                             {"samples", ledger.running().sample_count}};
  out["witnessed_from_step"] = ledger.witnessed_from();
  json computed = json::array();
  for (const auto& [node, slices] : ledger.slices())
    computed.push_back(
        {{"node", in.cluster.name_of(node)}, {"id", node.text()}, {"slices", slices}});
  out["computed"] = computed;
  json refused = json::array();
  for (const auto& [node, reason] : in.refused)
    refused.push_back(
        {{"node", in.cluster.name_of(node)}, {"id", node.text()}, {"reason", reason}});
  out["refused"] = refused;
  json lost = json::array();
  for (const job::LostMember& one : in.status.lost)
    lost.push_back({{"node", in.cluster.name_of(one.node)},
                    {"id", one.node.text()},
                    {"reason", one.reason},
                    {"step", one.step}});
  out["lost_members"] = lost;
  if (const job::Explanation times = ledger.explain(); times.steps > 0)
    out["times"] = times_of(times, in.cluster);
  if (ledger.checkpoint_step() > 0)
    out["checkpoint"] = {{"step", ledger.checkpoint_step()}, {"path", ledger.checkpoint_path()}};
  json damaged = json::array();
  for (const DamagedCheckpoint& one : in.damaged)
    damaged.push_back({{"step", one.name.step}, {"path", one.path}, {"reason", one.reason}});
  out["damaged_checkpoints"] = damaged;
  if (in.late_disk)
    out["late_disk"] = {{"work", to_string(in.late_disk->task.work)},
                        {"step", in.late_disk->task.step},
                        {"seconds", seconds(in.late_disk->lasts)},
                        {"usual_seconds", seconds(in.late_disk->usual)}};
  if (in.status.durable.name.step > 0)
    out["durable"] = {{"step", in.status.durable.name.step}, {"nodes", in.status.holders}};
  json events = json::array();
  std::size_t skipped = 0, count = ledger.events().size();
  for (const JobLedger::Event& event : ledger.events())
    if (skipped++ + kEventsShown >= count)
      events.push_back({{"seconds_ago", seconds(in.now - event.time)},
                        {"at", since_1970(in, event.time)},
                        {"text", event.text}});
  out["events"] = events;
  return text_of(out);
}

std::string report_at(const std::string& report, std::chrono::system_clock::time_point wall) {
  json out = json::parse(report, nullptr, false);
  if (!out.is_object()) return report;
  const double now = std::chrono::duration<double>(wall.time_since_epoch()).count();
  for (json& event : out["events"])
    if (event.is_object() && event.contains("at"))
      event["seconds_ago"] = std::max(0.0, now - event.value("at", now));
  return text_of(out);
}

bool lacks_its_result(const std::string& report) {
  const json told = json::parse(report, nullptr, false);
  if (!told.is_object() || told.value("phase", "") != to_string(JobPhase::finished)) return false;
  const auto step_of = [&](const char* part, const char* key) {
    return told.value(part, json::object()).value(key, std::uint64_t{0});
  };
  const std::uint64_t computed = step_of("data_fingerprint", "steps");  // 0: a witness
  return !told.value("result_elsewhere", false) && computed > 0 &&
         computed == told.value("steps", computed) && step_of("checkpoint", "step") < computed;
}

std::string log_json(const ReportInput& in) {
  json out = progress(in);
  out["now"] = since_1970(in, in.now);
  json events = json::array(), commits = json::array();
  for (const JobLedger::Event& event : in.ledger.events())
    events.push_back({{"at", since_1970(in, event.time)}, {"text", event.text}});
  for (const JobLedger::Commit& commit : in.ledger.commits()) {
    const bool early = in.status.needs_lease && commit.view_id == in.status.view_id &&
                       commit.step > in.status.reported;
    if (early) continue;
    json line = {
        {"at", since_1970(in, commit.time)}, {"step", commit.step}, {"view", commit.view_id}};
    if (commit.state != Digest{}) line["state_digest"] = commit.state.text();
    commits.push_back(std::move(line));
  }
  out["events"] = std::move(events);
  out["commits"] = std::move(commits);
  return text_of(out);
}

}  // namespace gpunode::jobs
