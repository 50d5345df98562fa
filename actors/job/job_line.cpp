#include "actors/job/job_line.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>

#include "actors/json_answer.hpp"
#include "runtime/base/bytes.hpp"
#include "runtime/base/digest.hpp"

namespace gpunode::jobs {

nlohmann::json as_of_json(const AsOf& as_of) {
  nlohmann::json out = {{"at", as_of.at}};
  if (!as_of.how.empty()) out["text"] = as_of.how;
  return out;
}

nlohmann::json job_line(const JobId& id, const std::string& name, const JobProgress& progress,
                        const ClusterSnapshot& cluster) {
  nlohmann::json line = {{"job", id.text()},
                         {"name", name},
                         {"phase", to_string(progress.phase)},
                         {"step", progress.step},
                         {"steps", progress.total_steps},
                         {"view", progress.view_id},
                         {"members", cluster.names_of(progress.members)}};
  if (!progress.reason.empty()) line["reason"] = progress.reason;
  if (progress.loss) line["loss"] = *progress.loss;
  if (progress.as_of.at > 0) line["as_of"] = as_of_json(progress.as_of);
  if (progress.finished_at > 0) line["finished_at"] = progress.finished_at;
  return line;
}

void add_origin(nlohmann::json& line, std::int64_t submitted, const NodeId& submitter,
                const ClusterSnapshot& cluster) {
  if (submitted == 0) return;
  line["submitted"] = static_cast<double>(submitted) / 1e6;
  line["submitter"] = cluster.name_of(submitter);
}

nlohmann::json ended_line(const std::string& outcome) {
  const nlohmann::json report = arguments_of(outcome);
  nlohmann::json line = nlohmann::json::object();
  for (const char* key : {"job", "name", "phase", "reason", "step", "steps", "view", "members",
                          "loss", "as_of", "finished_at"})
    if (report.contains(key) && report[key] != "") line[key] = report[key];
  return line;
}

JobProgress progress_of(const JobId& id, const std::string& outcome) {
  const nlohmann::json report = arguments_of(outcome);
  JobProgress progress;
  progress.id = id;
  progress.phase =
      parse_job_phase(field<std::string>(report, "phase", "")).value_or(JobPhase::failed);
  progress.reason = field<std::string>(report, "reason", "");
  progress.step = field<std::uint64_t>(report, "step", 0);
  progress.total_steps = field<std::uint64_t>(report, "steps", 0);
  progress.view_id = field<std::uint64_t>(report, "view", 0);
  progress.ended = true;
  return progress;
}

namespace {

// Of all entries whose key `is_meant`; the others are not decoded.
template <class IsMeant>
std::vector<HeardHint> hints_with(const ClusterSnapshot& cluster, IsMeant is_meant) {
  std::vector<HeardHint> hints;
  for (const DirectoryEntry& entry : cluster.entries) {
    if (entry.owner == cluster.self || !is_meant(entry.key)) continue;
    auto note = decode_note(entry.value);
    if (!note || !std::holds_alternative<JobHint>(*note)) continue;
    hints.push_back({entry.key.substr(4), entry.owner, std::get<JobHint>(std::move(*note))});
  }
  return hints;
}

}  // namespace

std::vector<HeardHint> hints_of_others(const ClusterSnapshot& cluster) {
  return hints_with(cluster, [](const std::string& key) { return key.starts_with("job/"); });
}

std::vector<HeardHint> hints_of(const ClusterSnapshot& cluster, const JobId& id) {
  return hints_with(cluster,
                    [own = "job/" + id.text()](const std::string& key) { return key == own; });
}

nlohmann::json hint_line(const std::string& id, const JobHint& hint,
                         const ClusterSnapshot& cluster) {
  nlohmann::json line = {
      {"job", id},         {"name", hint.name},   {"phase", to_string(hint.phase)},
      {"step", hint.step}, {"steps", hint.steps}, {"view", hint.view_id}};
  if (!hint.reason.empty()) line["reason"] = hint.reason;
  if (hint.loss != 0) line["loss"] = hint.loss;
  add_origin(line, hint.submitted, hint.submitter, cluster);
  return line;
}

bool is_listed(const nlohmann::json& list, const std::string& id) {
  return std::ranges::any_of(
      list, [&](const nlohmann::json& line) { return line.value("job", "") == id; });
}

std::string in_words(std::string text, const ClusterSnapshot& cluster, const std::string& job) {
  if (text.empty()) return text;
  const auto joins = [](char letter) {
    return letter == '~' || std::isalnum(static_cast<unsigned char>(letter)) != 0;
  };
  for (const NodeInfo& node : cluster.nodes) {
    const std::string id = node.id.short_text();
    if (node.name == id) continue;
    for (std::size_t at = text.find(id); at != std::string::npos;) {
      const std::size_t end = at + id.size();
      const bool inside =
          (at > 0 && joins(text[at - 1])) || (end < text.size() && joins(text[end]));
      if (!inside) text.replace(at, id.size(), node.name);
      at = text.find(id, inside ? end : at + node.name.size());
    }
  }
  for (const std::string order : {"show", "log", "stop", "resume", "recover", "rm"})
    for (const std::string end : {"`", " --"}) {
      const std::string command = "`gpunode job " + order;
      for (std::size_t at = text.find(command + end); at != std::string::npos;
           at = text.find(command + end, at + command.size()))
        text.insert(at + command.size(), " " + job);
    }
  return text;
}

bool has_result(const JobHint& hint) {
  return hint.phase == JobPhase::finished && hint.has_result;
}

std::string result_removed_on(const std::vector<HeardHint>& hints, const ClusterSnapshot& cluster) {
  if (std::ranges::any_of(hints, has_result, &HeardHint::hint)) return "";
  std::vector<NodeId> nodes;
  for (const HeardHint& heard : hints)
    if (heard.hint.phase == JobPhase::finished && heard.hint.reason == kNoResult)
      nodes.push_back(heard.from);
  std::ranges::sort(nodes, {}, [&](const NodeId& node) { return cluster.name_of(node); });
  return nodes.empty() ? "" : cluster.list_of(nodes);
}

std::string failed_text(const std::vector<HeardHint>& hints, const ClusterSnapshot& cluster) {
  std::vector<const HeardHint*> failed;
  for (const HeardHint& heard : hints)
    if (heard.hint.phase == JobPhase::failed && cluster.alive(heard.from)) failed.push_back(&heard);
  if (failed.empty()) return "";
  const std::size_t more = failed.size() - 1;
  return "node " + cluster.name_of(failed[0]->from) + " has failed: " + failed[0]->hint.reason +
         (more > 0 ? " (and " + std::to_string(more) + " more)" : "") +
         "; `gpunode job resume` there lets it take part again";
}

nlohmann::json elsewhere_json(const std::vector<HeardHint>& hints, const ClusterSnapshot& cluster) {
  const auto goes_on = [&](const HeardHint& heard) {
    const JobPhase phase = heard.hint.phase;
    return cluster.alive(heard.from) && phase != JobPhase::failed && phase != JobPhase::removed &&
           phase != JobPhase::outsider && phase != JobPhase::witness;
  };
  const HeardHint* furthest = nullptr;
  std::vector<NodeId> nodes;
  for (const HeardHint& heard : hints) {
    if (!goes_on(heard)) continue;
    nodes.push_back(heard.from);
    const auto far = [](const HeardHint& one) {
      return std::pair(one.hint.view_id, one.hint.step);
    };
    if (!furthest || far(*furthest) < far(heard)) furthest = &heard;
  }
  if (!furthest) return nullptr;
  std::ranges::sort(nodes, {}, [&](const NodeId& node) { return cluster.name_of(node); });
  return {{"phase", to_string(furthest->hint.phase)},
          {"step", furthest->hint.step},
          {"nodes", cluster.names_of(nodes)}};
}

void add_jobs_of_others(nlohmann::json& list, const ClusterSnapshot& cluster) {
  const auto hints = hints_of_others(cluster);
  // Of those that tell of a job the one that knows most.
  const auto worth = [&](const HeardHint& heard) {
    const JobPhase phase = heard.hint.phase;
    const bool part = phase != JobPhase::outsider && phase != JobPhase::witness &&
                      phase != JobPhase::failed && phase != JobPhase::removed;
    return std::tuple(cluster.alive(heard.from), part, heard.hint.view_id, heard.hint.step);
  };
  std::map<std::string, const HeardHint*> best;
  for (const HeardHint& heard : hints) {
    if (is_listed(list, heard.id) || heard.hint.phase == JobPhase::removed) continue;
    const HeardHint*& known = best[heard.id];
    if (!known || worth(*known) < worth(heard)) known = &heard;
  }
  for (const auto& [id, heard] : best) {
    nlohmann::json& line = list.emplace_back(hint_line(id, heard->hint, cluster));
    line["member_count"] = heard->hint.members;
    line["known_from"] = cluster.name_of(heard->from);
  }
}

void tell_of_the_end(nlohmann::json& line) {
  if (field<std::string>(line, "phase", "") != to_string(JobPhase::finished)) return;
  const auto steps = field<std::uint64_t>(line, "steps", 0);
  if (field<std::uint64_t>(line, "step", 0) < steps &&
      field<std::string>(line, "reason", "").empty())
    line["reason"] = kNoResult;
  line["step"] = steps;
}

void record_metrics(telemetry::Registry& metrics, const std::string& name,
                    const JobProgress& progress) {
  const telemetry::Labels job{{"job", name}, {"job_id", progress.id.text()}};
  const auto with = [&](const char* key, std::string_view value) {
    telemetry::Labels labels = job;
    labels[key] = value;
    return labels;
  };
  const auto set = [&](const char* gauge, const char* help, const telemetry::Labels& labels,
                       auto value) {
    const bool gone = progress.phase == JobPhase::removed;
    metrics.gauge(gauge, help, labels)
        .set(gone ? telemetry::Gauge::kUnknown : static_cast<double>(value));
  };
  for (const std::string_view phase : kJobPhases)
    set("gpunode_job_phase", "1 for where this node's part in the job stands, 0 for all else",
        with("phase", phase), phase == to_string(progress.phase) ? 1 : 0);
  set("gpunode_job_committed_step", "Newest committed step of the job", job, progress.step);
  set("gpunode_job_steps", "Steps that the job has in all", job, progress.total_steps);
  set("gpunode_job_members", "Members of the job's view", job, progress.members.size());
  set("gpunode_job_view_id", "Number of the job's view; it rises with each change", job,
      progress.view_id);
  if (progress.loss || progress.phase == JobPhase::removed)
    set("gpunode_job_loss", "Mean loss a token of the last training batch, nats", job,
        progress.loss.value_or(0));
  const bool rests = is_over(progress.phase) || progress.phase == JobPhase::stopped;
  set("gpunode_job_tokens_per_second", "Training speed over the last steps", job,
      rests ? 0.0 : progress.tokens_per_second);
  for (const auto& [way, bytes] : {std::pair("to_device", progress.to_device_bytes),
                                   std::pair("to_host", progress.to_host_bytes)})
    set("gpunode_job_host_bytes_per_step",
        "Bytes copied between host memory and the job's devices in the last step", with("way", way),
        bytes);
}

void count_damaged(telemetry::Registry& metrics, const std::string& name,
                   const JobProgress& progress, std::uint64_t before) {
  telemetry::Counter& found =
      metrics.counter("gpunode_checkpoints_damaged_total",
                      "Checkpoints of the job found damaged on this node, and set aside",
                      {{"job", name}, {"job_id", progress.id.text()}});
  const std::uint64_t now = progress.damaged_checkpoints;
  if (now > before) found.add(now - before);
}

std::uint64_t site_of(const std::string& group_by, const std::vector<std::string>& labels,
                      const std::string& machine) {
  const auto site = [](const std::string& text) {
    return text.empty() ? 0 : std::max<std::uint64_t>(digest_of(as_bytes(text)).low, 1);
  };
  if (group_by == "machine") return site(machine);
  for (const std::string& label : labels)
    if (label.starts_with(group_by + "=")) return site(label);
  return 0;
}

bool labels_fit(const std::vector<std::string>& wanted, const std::vector<std::string>& own) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const std::string& label) {
    return std::find(own.begin(), own.end(), label) != own.end();
  });
}

}  // namespace gpunode::jobs
