// `jobs`, `job show` and `job log`: what is trained here, the proof of what it was fed, and what
// happened when.
#include "actors/job/timeouts.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/progress_text.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;
using Rows = std::vector<std::vector<std::string>>;

std::string names_of(const json& list) {
  std::string out;
  for (const json& one : list)
    if (one.is_string()) out += (out.empty() ? "" : ", ") + one.get<std::string>();
  return out;
}

std::vector<std::string> row_of(const json& job) {
  auto step = field<std::uint64_t>(job, "step", 0);
  std::string members = names_of(field<json>(job, "members", json::array()));
  if (members.empty() && job.contains("member_count"))
    members = std::to_string(field<std::uint64_t>(job, "member_count", 0)) + " (told by " +
              field<std::string>(job, "known_from", "?") + ")";
  return {field<std::string>(job, "job", "?").substr(0, 8),
          field<std::string>(job, "name", "?"),
          field<std::string>(job, "phase", "?"),
          std::to_string(step) + "/" + std::to_string(field<std::uint64_t>(job, "steps", 0)),
          step > 0 ? loss_text(job, "loss") : "-",
          members,
          field<std::string>(job, "reason", "")};
}

// The plain fields of a report that are worth a line, in this order.
Rows fields_of(const json& report) {
  Rows rows;
  for (const char* key :
       {"job", "name", "phase", "reason", "view", "nodes_wanted", "on_lost_quorum", "data", "seed",
        "slices_per_step", "exchange_mode", "exchange_note", "fingerprint", "state_digest"}) {
    auto it = report.find(key);
    if (it == report.end()) continue;
    rows.push_back({key, it->is_string() ? it->get<std::string>() : it->dump()});
  }
  std::string groups;
  for (const json& group : field<json>(report, "exchange_groups", json::array()))
    groups += (groups.empty() ? "" : " | ") + names_of(group);
  if (!groups.empty()) rows.push_back({"exchange_groups", groups});
  const std::string witnesses = names_of(field<json>(report, "witnesses", json::array()));
  if (!witnesses.empty()) rows.push_back({"witnesses", witnesses + " (vote, compute nothing)"});
  for (const json& one : field<json>(report, "refused", json::array()))
    rows.push_back(
        {"not on " + field<std::string>(one, "node", "?"), field<std::string>(one, "reason", "?")});
  for (const json& one : field<json>(report, "lost_members", json::array()))
    rows.push_back({"lost " + field<std::string>(one, "node", "?"),
                    field<std::string>(one, "reason", "?") + " (after step " +
                        std::to_string(field<std::uint64_t>(one, "step", 0)) + ")"});
  if (json skipped = field<json>(report, "skipped_steps", json()); skipped.is_object())
    rows.push_back({"skipped", std::to_string(field<std::uint64_t>(skipped, "all", 0)) +
                                   " steps without a finite gradient, " +
                                   std::to_string(field<std::uint64_t>(skipped, "in_a_row", 0)) +
                                   " of them just now"});
  if (const auto steps = field<std::uint64_t>(report, "unsaved_steps", 0); steps > 0)
    rows.push_back({"unsaved", std::to_string(steps) +
                                   " steps, in the members' memory alone until a checkpoint"});
  json checkpoint = field<json>(report, "checkpoint", json());
  if (checkpoint.is_object())
    rows.push_back({"checkpoint", "step " +
                                      std::to_string(field<std::uint64_t>(checkpoint, "step", 0)) +
                                      ", " + field<std::string>(checkpoint, "path", "")});
  for (const json& one : field<json>(report, "damaged_checkpoints", json::array()))
    rows.push_back({"damaged", "checkpoint of step " +
                                   std::to_string(field<std::uint64_t>(one, "step", 0)) + ": " +
                                   field<std::string>(one, "reason", "?") + "; kept in " +
                                   field<std::string>(one, "path", "?")});
  if (json late = field<json>(report, "late_disk", json()); late.is_object())
    rows.push_back({"disk", "does not answer: a checkpoint is " +
                                field<std::string>(late, "work", "?") + " since " +
                                human_duration(field<double>(late, "seconds", 0))});
  json durable = field<json>(report, "durable", json());
  if (const auto holders = field<std::uint64_t>(durable, "nodes", 0); durable.is_object())
    rows.push_back({"durable", "step " + std::to_string(field<std::uint64_t>(durable, "step", 0)) +
                                   ", on " + std::to_string(holders) +
                                   (holders == 1 ? " node" : " nodes") +
                                   ": the job goes back no further"});
  if (double bytes = field<double>(report, "sync_received_bytes", 0); bytes > 0)
    rows.push_back(
        {"learned", human_bytes(bytes) + " in " +
                        human_duration(field<double>(report, "sync_seconds", 0)) + ", " +
                        std::to_string(field<std::uint64_t>(report, "sync_followed_steps", 0)) +
                        " steps followed while the members went on"});
  return rows;
}

std::string computed_text(const json& report) {
  json computed = field<json>(report, "computed", json::array());
  if (computed.empty()) return {};
  Rows rows = {{"COMPUTED BY", "ID", "SLICES"}};
  for (const json& one : computed)
    rows.push_back({field<std::string>(one, "node", "?"),
                    field<std::string>(one, "id", "?").substr(0, 8),
                    std::to_string(field<std::uint64_t>(one, "slices", 0))});
  return "\n" + aligned(rows);
}

std::string milliseconds_of(const json& one, const char* key) {
  return decimal(field<double>(one, key, 0) * 1000, 1);
}

// Where the time of a step goes, in milliseconds, and who holds it up.
std::string times_text(const json& report) {
  json times = field<json>(report, "times", json::object());
  json members = field<json>(times, "members", json::array());
  if (members.empty()) return {};
  Rows rows = {{"MEMBER", "SLICES", "MS/SLICE", "COMPUTE", "DATA", "WAIT", "EXCHANGE", "CONFIRM",
                "APPLY", "SENT", "RECEIVED"}};
  for (const json& one : members)
    rows.push_back({field<std::string>(one, "node", "?"),
                    std::to_string(field<std::uint64_t>(one, "slices", 0)),
                    milliseconds_of(one, "slice_seconds"), milliseconds_of(one, "compute_seconds"),
                    milliseconds_of(one, "data_seconds"), milliseconds_of(one, "wait_seconds"),
                    milliseconds_of(one, "exchange_seconds"),
                    milliseconds_of(one, "confirm_seconds"), milliseconds_of(one, "apply_seconds"),
                    human_bytes(field<double>(one, "sent_bytes", 0)),
                    human_bytes(field<double>(one, "received_bytes", 0))});
  std::string text =
      "\na step takes " + milliseconds_of(times, "step_seconds") + " ms (mean of the last " +
      std::to_string(field<std::uint64_t>(times, "steps", 0)) + "):\n" + aligned(rows);
  json slowest = field<json>(times, "slowest", json::object());
  if (slowest.contains("node"))
    text += "slowest: " + field<std::string>(slowest, "node", "?") + ", by its " +
            field<std::string>(slowest, "cause", "?") + "; the others wait " +
            milliseconds_of(slowest, "lost_seconds") + " ms a step for it (" +
            field<std::string>(slowest, "text", "") + ")\n";
  if (times.contains("advice")) text += field<std::string>(times, "advice", "") + "\n";
  return text;
}

std::string stall_text(const json& report) {
  json stall = field<json>(report, "stall", json::object());
  if (!stall.contains("node")) return {};
  return "\nstep " + std::to_string(field<std::uint64_t>(stall, "step", 0)) + " waits for " +
         field<std::string>(stall, "node", "?") + ": no " +
         field<std::string>(stall, "waiting_for", "?") + " of it for " +
         human_duration(field<double>(stall, "seconds", 0)) + "\n";
}

std::string proof_text(const json& report) {
  json data_fingerprint = field<json>(report, "data_fingerprint", json::object());
  json proof = field<json>(report, "proof", json::object());
  if (proof.contains("error"))
    return "\nno proof: " + field<std::string>(proof, "error", "?") + "\n";
  if (!proof.contains("hash_sum")) return {};
  auto yes_no = [&](const char* key) {
    return std::string(field<bool>(proof, key, false) ? "yes" : "NO");
  };
  Rows rows = {
      {"fed in training", field<std::string>(data_fingerprint, "hash_sum", "?"),
       std::to_string(field<std::uint64_t>(data_fingerprint, "samples", 0)) + " samples"},
      {"scanned from the data", field<std::string>(proof, "hash_sum", "?"),
       std::to_string(field<std::uint64_t>(proof, "samples", 0)) + " samples"},
  };
  return "\n" + aligned(rows) + "equal: " + yes_no("equal_to_data") +
         "; each sample once an epoch: " + yes_no("each_sample_once_an_epoch") + "\n";
}

std::string events_text(const json& report) {
  Rows rows;
  for (const json& event : field<json>(report, "events", json::array()))
    rows.push_back({human_duration(field<double>(event, "seconds_ago", -1)) + " ago",
                    field<std::string>(event, "text", "")});
  return rows.empty() ? "" : "\n" + aligned(rows);
}

std::string log_text(const json& log) {
  std::string out;
  for (const json& event : field<json>(log, "events", json::array()))
    out += time_text(field<double>(event, "at", 0)) + "  " + field<std::string>(event, "text", "") +
           "\n";
  return out.empty() ? "nothing has happened yet\n" : out;
}

// That it is another node which speaks, where the one that was asked has no part in the job.
std::string teller_text(const json& answer) {
  const std::string teller = field<std::string>(answer, "told_by", "");
  return teller.empty() ? "" : "told by " + teller + ", which \"this node\" means here:\n";
}

}  // namespace

int run_jobs(const Invocation& invocation) {
  Answer answer = ask_node(invocation, "jobs");
  if (!answer) return fail(invocation, answer);
  if (invocation.json()) {
    print_json(answer.body);
    return kOk;
  }
  Rows rows = {{"JOB", "NAME", "PHASE", "STEP", "LOSS", "MEMBERS", ""}};
  for (const json& job : field<json>(answer.body, "jobs", json::array()))
    rows.push_back(row_of(job));
  print(rows.size() == 1 ? "no jobs; `gpunode train JOB.toml` starts one\n" : aligned(rows));
  return kOk;
}

int run_job_show(const Invocation& invocation) {
  // The proof reads the data that the job was fed.
  Answer answer = ask_node(invocation, "job.show", {{"job", invocation.arguments.text("JOB")}},
                           jobs::kShowTimeout);
  if (!answer) return fail(invocation, answer);
  if (invocation.json())
    print_json(answer.body);
  else
    print(teller_text(answer.body) + progress_text(answer.body) + "\n\n" +
          aligned(fields_of(answer.body)) + stall_text(answer.body) + times_text(answer.body) +
          computed_text(answer.body) + proof_text(answer.body) + events_text(answer.body));
  return kOk;
}

int run_job_log(const Invocation& invocation) {
  Answer answer = ask_node(invocation, "job.log", {{"job", invocation.arguments.text("JOB")}});
  if (!answer) return fail(invocation, answer);
  if (invocation.json())
    print_json(answer.body);
  else
    print(teller_text(answer.body) + log_text(answer.body));
  return kOk;
}

}  // namespace gpunode::cli
