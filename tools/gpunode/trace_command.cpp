// `job trace`: the newest steps of a job over all its members, as a file for a trace viewer.
#include <cstdio>
#include <fstream>

#include "actors/job/timeouts.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/output_file.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

// What a person wants to know of the trace: members, and how far their clocks may be off.
std::string summary_of(const json& trace) {
  json clocks = field<json>(object(trace, "metadata"), "clocks", json::array());
  std::vector<std::vector<std::string>> rows = {{"MEMBER", "CLOCK OFF BY", "AT MOST", ""}};
  for (const json& clock : clocks) {
    std::string remark = field<std::string>(clock, "error", "");
    if (const auto first = field<std::uint64_t>(clock, "first_step", 0); first > 0)
      remark = "its spans begin at step " + std::to_string(first);
    rows.push_back({word(clock, "member"),
                    decimal(field<double>(clock, "offset_us", 0) / 1000, 3) + " ms",
                    decimal(field<double>(clock, "uncertainty_us", 0) / 1000, 3) + " ms", remark});
  }
  return aligned(rows);
}

}  // namespace

int run_job_trace(const Invocation& invocation) {
  auto steps = invocation.arguments.whole("--steps", 8, 1, 1000);
  if (!steps) return fail(invocation, steps.error(), kUsage);
  std::string where = invocation.arguments.text("--out");
  if (!where.empty()) {
    const auto file = output_file(invocation, where);
    if (!file) return fail(invocation, file.error());
    where = file->string();
  }
  Answer answer =
      ask_node(invocation, "job.trace",
               {{"job", invocation.arguments.text("JOB")}, {"steps", *steps}}, jobs::kTraceTimeout);
  if (!answer) return fail(invocation, answer);
  const json trace = object(answer.body, "trace");
  const std::string text = trace.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  if (where.empty())
    return tell(invocation, {trace, std::nullopt, kOk}, [&](auto&) { return text; });
  std::ofstream file(where, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file)
    return fail(invocation, {ErrorCode::io_error, "cannot write " + where +
                                                      ": look at its folder and the disk's space"});
  const json written = {{"path", where},
                        {"events", list(trace, "traceEvents").size()},
                        {"metadata", object(trace, "metadata")}};
  return tell(invocation, {written, std::nullopt, kOk}, [](const json& told) {
    return summary_of(told) + "wrote " + word(told, "path") + "; open it with ui.perfetto.dev\n";
  });
}

}  // namespace gpunode::cli
