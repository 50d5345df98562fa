// `doctor`: looks over this machine and says what would keep a node from working.
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/doctor_checks.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

struct Listen {
  std::string host = "0.0.0.0";
  int port = 7601;
};

Result<Listen> parse_listen(std::string text) {
  Listen listen;
  if (text.empty()) return listen;
  std::size_t colon = text.rfind(':');
  bool has_port = colon != std::string::npos && text.find(']', colon) == std::string::npos;
  if (has_port) {
    const auto port = parse_number(std::string_view(text).substr(colon + 1), 0, 65533);
    if (!port)
      return Error{ErrorCode::invalid_argument,
                   "--listen wants HOST:PORT with a port up to 65533, not '" + text + "'"};
    listen.port = *port;
    text.resize(colon);
  }
  if (text.starts_with("[") && text.ends_with("]")) text = text.substr(1, text.size() - 2);
  if (!text.empty()) listen.host = text;
  return listen;
}

std::string text_of(const nlohmann::json& findings) {
  std::vector<std::vector<std::string>> rows;
  for (const nlohmann::json& finding : findings) {
    rows.push_back({word(finding, "grade"), word(finding, "subject"), word(finding, "text")});
    if (const std::string remedy = word(finding, "remedy"); !remedy.empty())
      rows.push_back({"", "", "-> " + remedy});
  }
  return aligned(rows);
}

}  // namespace

int run_doctor(const Invocation& invocation) {
  auto listen = parse_listen(listen_address(invocation.arguments.text("--listen")));
  if (!listen) return fail(invocation, listen.error(), kUsage);
  std::string state = invocation.state();
  bool runs = static_cast<bool>(
      ask_node(invocation, "node.info", nlohmann::json::object(), std::chrono::seconds(2)));
  std::vector<Finding> findings = {check_driver(GPUNODE_BUILT_WITH_CUDA != 0),
                                   check_ports(listen->host, listen->port, runs),
                                   check_clock(),
                                   check_disk(state),
                                   check_open_files(),
                                   check_locked_memory(has_gpu()),
                                   check_proc(),
                                   check_sandbox(),
                                   check_state(state, runs)};
  bool sound = true;
  auto list = nlohmann::json::array();
  for (const Finding& finding : findings) {
    sound = sound && finding.grade != Finding::Grade::fail;
    list.push_back({{"subject", finding.subject},
                    {"grade", to_string(finding.grade)},
                    {"text", finding.text},
                    {"remedy", finding.remedy}});
  }
  if (invocation.json()) {
    std::optional<Error> wrong;
    if (!sound) wrong = {ErrorCode::wrong_state, "this machine is not ready for a node"};
    print_json({{"findings", list}}, wrong);
  } else {
    print(text_of(list));
  }
  return sound ? kOk : kFailed;
}

}  // namespace gpunode::cli
