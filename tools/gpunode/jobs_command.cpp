// `jobs`, `job show` and `job log`: what is trained here, the proof of what it was fed, and what
// happened when.
#include "actors/job/timeouts.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/progress_text.hpp"
#include "tools/gpunode/tables.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;
using Rows = std::vector<std::vector<std::string>>;

std::string remark_of(const json& job) {
  std::string remark = field<std::string>(job, "reason", "");
  for (const std::string& more : {as_of_text(job), finished_text(job)})
    if (!more.empty()) remark += (remark.empty() ? "" : "; ") + more;
  return remark;
}

std::vector<std::string> row_of(const json& job) {
  auto step = field<std::uint64_t>(job, "step", 0);
  std::string members = joined(list(job, "members"));
  if (members.empty() && job.contains("member_count"))
    members = number(job, "member_count") + " (told by " + word(job, "known_from") + ")";
  const double submitted = field<double>(job, "submitted", 0);
  return {word(job, "job").substr(0, 8),
          field<std::string>(job, "shown_as", word(job, "name")),
          submitted > 0 ? time_text(submitted).substr(0, 19) : "-",
          word(job, "phase"),
          std::to_string(step) + "/" + number(job, "steps"),
          step > 0 ? loss_text(job, "loss") : "-",
          members,
          remark_of(job)};
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
  if (report.contains("finished_at"))
    rows.push_back({"finished", time_text(field<double>(report, "finished_at", 0)) + " (" +
                                    finished_text(report).substr(sizeof "finished") + ")"});
  std::string groups;
  for (const json& group : list(report, "exchange_groups"))
    groups += (groups.empty() ? "" : " | ") + joined(group);
  if (!groups.empty()) rows.push_back({"exchange_groups", groups});
  if (const auto steps = field<std::uint64_t>(report, "carried_steps", 0); steps > 0)
    rows.push_back({"carried", std::to_string(steps) +
                                   " results came here from device to device, not over the host"});
  const std::string witnesses = joined(list(report, "witnesses"));
  if (!witnesses.empty()) rows.push_back({"witnesses", witnesses + " (vote, compute nothing)"});
  for (const json& one : list(report, "refused"))
    rows.push_back({"not on " + word(one, "node"), word(one, "reason")});
  for (const json& one : list(report, "lost_members"))
    rows.push_back({"lost " + word(one, "node"),
                    word(one, "reason") + " (after step " + number(one, "step") + ")"});
  if (json skipped = field<json>(report, "skipped_steps", json()); skipped.is_object())
    rows.push_back({"skipped", number(skipped, "all") + " steps without a finite gradient, " +
                                   number(skipped, "in_a_row") + " of them just now"});
  if (const auto steps = field<std::uint64_t>(report, "unsaved_steps", 0); steps > 0)
    rows.push_back({"unsaved", std::to_string(steps) +
                                   " steps, in the members' memory alone until a checkpoint"});
  json checkpoint = field<json>(report, "checkpoint", json());
  if (checkpoint.is_object())
    rows.push_back({"checkpoint", "step " + number(checkpoint, "step") + ", " +
                                      field<std::string>(checkpoint, "path", "")});
  for (const json& one : list(report, "damaged_checkpoints"))
    rows.push_back({"damaged", "checkpoint of step " + number(one, "step") + ": " +
                                   word(one, "reason") + "; kept in " + word(one, "path")});
  if (json late = field<json>(report, "late_disk", json()); late.is_object())
    rows.push_back({"disk", "does not answer: a checkpoint is " + word(late, "work") + " since " +
                                human_duration(field<double>(late, "seconds", 0))});
  json durable = field<json>(report, "durable", json());
  if (const auto holders = field<std::uint64_t>(durable, "nodes", 0); durable.is_object())
    rows.push_back({"durable", "step " + number(durable, "step") + ", on " +
                                   std::to_string(holders) + (holders == 1 ? " node" : " nodes") +
                                   ": the job goes back no further"});
  if (double bytes = field<double>(report, "sync_received_bytes", 0); bytes > 0)
    rows.push_back({"learned", human_bytes(bytes) + " in " +
                                   human_duration(field<double>(report, "sync_seconds", 0)) + ", " +
                                   number(report, "sync_followed_steps") +
                                   " steps followed while the members went on"});
  return rows;
}

std::string computed_text(const json& report) {
  json computed = list(report, "computed");
  if (computed.empty()) return {};
  Rows rows = {{"COMPUTED BY", "ID", "SLICES"}};
  for (const json& one : computed)
    rows.push_back({word(one, "node"), word(one, "id").substr(0, 8), number(one, "slices")});
  const auto first = field<std::uint64_t>(report, "witnessed_from_step", 1);
  return "\n" + aligned(rows) +
         (first > 1
              ? "from step " + std::to_string(first) + " on, what came before is not known here\n"
              : "");
}

std::string milliseconds_of(const json& one, const char* key) {
  return decimal(field<double>(one, key, 0) * 1000, 1);
}

// Where the time of a step goes, in milliseconds, and who holds it up.
std::string times_text(const json& report) {
  json times = object(report, "times");
  json members = list(times, "members");
  if (members.empty()) return {};
  Rows rows = {{"MEMBER", "SLICES", "MS/SLICE", "COMPUTE", "DATA", "WAIT", "EXCHANGE", "CONFIRM",
                "APPLY", "SENT", "RECEIVED"}};
  for (const json& one : members)
    rows.push_back({word(one, "node"), number(one, "slices"), milliseconds_of(one, "slice_seconds"),
                    milliseconds_of(one, "compute_seconds"), milliseconds_of(one, "data_seconds"),
                    milliseconds_of(one, "wait_seconds"), milliseconds_of(one, "exchange_seconds"),
                    milliseconds_of(one, "confirm_seconds"), milliseconds_of(one, "apply_seconds"),
                    human_bytes(field<double>(one, "sent_bytes", 0)),
                    human_bytes(field<double>(one, "received_bytes", 0))});
  std::string text = "\na step takes " + milliseconds_of(times, "step_seconds") +
                     " ms (mean of the last " + number(times, "steps") + "):\n" + aligned(rows);
  json slowest = object(times, "slowest");
  if (slowest.contains("node"))
    text += "slowest: " + word(slowest, "node") + ", by its " + word(slowest, "cause") +
            "; the others wait " + milliseconds_of(slowest, "lost_seconds") +
            " ms a step for it (" + field<std::string>(slowest, "text", "") + ")\n";
  if (const json nobody = object(times, "nobody"); nobody.contains("text"))
    text += "slowest: " + word(nobody, "text") + "\n";
  if (times.contains("advice")) text += field<std::string>(times, "advice", "") + "\n";
  return text;
}

std::string stall_text(const json& report) {
  json stall = object(report, "stall");
  if (!stall.contains("node")) return {};
  return "\nstep " + number(stall, "step") + " waits for " + word(stall, "node") + ": no " +
         word(stall, "waiting_for") + " of it for " +
         human_duration(field<double>(stall, "seconds", 0)) + "\n";
}

std::string proof_text(const json& report) {
  json data_fingerprint = object(report, "data_fingerprint");
  json proof = object(report, "proof");
  if (proof.contains("error")) return "\nno proof: " + word(proof, "error") + "\n";
  if (!proof.contains("hash_sum")) return {};
  auto yes_no = [&](const char* key) {
    return std::string(field<bool>(proof, key, false) ? "yes" : "NO");
  };
  Rows rows = {
      {"fed in training", word(data_fingerprint, "hash_sum"),
       number(data_fingerprint, "samples") + " samples up to step " +
           number(data_fingerprint, "steps")},
      {"scanned from the data", word(proof, "hash_sum"), number(proof, "samples") + " samples"},
  };
  return "\n" + aligned(rows) + "equal: " + yes_no("equal_to_data") +
         "; each sample once an epoch: " + yes_no("each_sample_once_an_epoch") + "\n";
}

// Of another member's disk and peers it is that this speaks, where it noted the event.
std::string event_text(const json& event) {
  const std::string by = field<std::string>(event, "noted_by", "");
  return (by.empty() ? "" : "on " + by + ": ") + field<std::string>(event, "text", "");
}

std::string events_text(const json& report) {
  Rows rows;
  for (const json& event : list(report, "events"))
    rows.push_back(
        {human_duration(field<double>(event, "seconds_ago", -1)) + " ago", event_text(event)});
  return rows.empty() ? "" : "\n" + aligned(rows);
}

std::string log_text(const json& log) {
  std::string out;
  for (const json& event : list(log, "events"))
    out += time_text(field<double>(event, "at", 0)) + "  " + event_text(event) + "\n";
  return out.empty() ? "nothing has happened yet\n" : out;
}

// That it is another node which speaks, where the one that was asked has no part in the job.
std::string teller_text(const json& answer) {
  const std::string teller = field<std::string>(answer, "told_by", "");
  return teller.empty() ? "" : "told by " + teller + ", which \"this node\" means here:\n";
}

}  // namespace

std::string jobs_text(const json& answer) {
  Rows rows = {{"JOB", "NAME", "SUBMITTED (UTC)", "PHASE", "STEP", "LOSS", "MEMBERS", ""}};
  for (const json& job : list(answer, "jobs")) rows.push_back(row_of(job));
  return rows.size() == 1 ? "no jobs; `gpunode train JOB.toml` starts one\n" : aligned(rows);
}

int run_jobs(const Invocation& invocation) {
  return tell(invocation, ask_node(invocation, "jobs"), jobs_text);
}

int run_job_show(const Invocation& invocation) {
  // The proof reads the data that the job was fed.
  return tell(invocation,
              ask_node(invocation, "job.show", {{"job", invocation.arguments.text("JOB")}},
                       jobs::kShowTimeout),
              [](const json& answer) {
                return teller_text(answer) + progress_text(answer) + "\n\n" +
                       aligned(fields_of(answer)) + stall_text(answer) + times_text(answer) +
                       computed_text(answer) + proof_text(answer) + events_text(answer);
              });
}

int run_job_log(const Invocation& invocation) {
  return tell(invocation,
              ask_node(invocation, "job.log", {{"job", invocation.arguments.text("JOB")}}),
              [](const json& answer) { return teller_text(answer) + log_text(answer); });
}

}  // namespace gpunode::cli
