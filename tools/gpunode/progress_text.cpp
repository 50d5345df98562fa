#include "tools/gpunode/progress_text.hpp"

#include <limits>
#include <vector>

#include "actors/job/job_phase.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

std::string sync_text(const json& progress) {
  const auto phase = jobs::parse_job_phase(field<std::string>(progress, "phase", ""));
  double received = field<double>(progress, "sync_received_bytes", 0);
  if (phase != jobs::JobPhase::learning && phase != jobs::JobPhase::syncing) return {};
  if (received <= 0) return {};
  double total = field<double>(progress, "sync_total_bytes", 0);
  std::string text =
      total > 0 ? "  state transfer " + human_bytes(received) + " of " + human_bytes(total) + " in "
                : "  received " + human_bytes(received) + " in ";
  text += human_duration(field<double>(progress, "sync_seconds", 0));
  auto behind = field<std::uint64_t>(progress, "sync_steps_behind", 0);
  if (behind > 0) text += ", " + std::to_string(behind) + " steps behind";
  return text;
}

}  // namespace

std::string loss_text(const json& line, const char* key) {
  if (!line.contains(key)) return "-";
  return decimal(field<double>(line, key, std::numeric_limits<double>::quiet_NaN()), 4);
}

std::string as_of_text(const json& line) {
  const json as_of = object(line, "as_of");
  if (!as_of.contains("text")) return {};
  return "as of " + human_duration(field<double>(as_of, "seconds_ago", -1)) + " ago, " +
         word(as_of, "text");
}

std::string finished_text(const json& line) {
  if (!line.contains("finished_seconds_ago")) return {};
  return "finished " + human_duration(field<double>(line, "finished_seconds_ago", -1)) + " ago";
}

std::string progress_text(const json& progress) {
  const std::string written = word(progress, "phase");
  const bool running = jobs::parse_job_phase(written) == jobs::JobPhase::running;
  auto step = field<std::uint64_t>(progress, "step", 0);
  std::string text;
  if (!running) text += written + "  ";
  const auto steps = field<std::uint64_t>(progress, "steps", 0);
  if (running && steps > 0 && step >= steps) text += "last step done, validating and saving  ";
  text += "step " + std::to_string(step) + "/" + number(progress, "steps");
  if (step > 0 && progress.contains("loss")) text += "  loss " + loss_text(progress, "loss");
  if (const std::string as_of = as_of_text(progress); !as_of.empty()) text += "  " + as_of;
  if (const json skipped = object(progress, "skipped_steps"); skipped.contains("all"))
    text += "  " + number(skipped, "all") + " steps skipped (no finite gradient)";
  if (progress.contains("validation_loss"))
    text += "  validation " + loss_text(progress, "validation_loss");
  if (progress.contains("validation_accuracy"))
    text +=
        " (" + decimal(100 * field<double>(progress, "validation_accuracy", 0), 1) + " % right)";
  double speed = field<double>(progress, "tokens_per_second", 0);
  if (speed > 0) {
    text += "  " + human_count(speed) + " tokens/s";
    const bool known = progress.contains("utilisation");
    text += "  " +
            (known ? decimal(100 * field<double>(progress, "utilisation", 0), 1) + " %" : "-") +
            " of peak";
  }
  std::size_t count = field<std::vector<std::string>>(progress, "members", {}).size();
  if (count > 0)
    text += "  " + std::to_string(count) + (count == 1 ? " member (" : " members (") +
            joined(list(progress, "members")) + ")";
  if (progress.contains("ordered")) text += "  (ordered to " + word(progress, "ordered") + ")";
  if (std::string waiting = joined(list(progress, "waiting_for")); !running && !waiting.empty())
    text += "  waiting for " + waiting;
  text += sync_text(progress);
  double left = field<double>(progress, "seconds_left", 0);
  if (running && left > 0) text += "  " + human_duration(left) + " left";
  if (std::string reason = field<std::string>(progress, "reason", ""); !reason.empty())
    text += "  (" + reason + ")";
  if (const json elsewhere = field<json>(progress, "elsewhere", json::object()); !elsewhere.empty())
    text += "; it is " + word(elsewhere, "phase") + " at step " + number(elsewhere, "step") +
            " on " + joined(list(elsewhere, "nodes"));
  return text;
}

}  // namespace gpunode::cli
