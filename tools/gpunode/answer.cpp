#include "tools/gpunode/answer.hpp"

#include <cstdio>

#include "runtime/base/harmless_text.hpp"
#include "runtime/transport/local_socket.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

Answer failed(Error error, int exit_code) {
  return {{}, std::move(error), exit_code};
}

Answer unreachable(const Invocation& invocation, const Error& error) {
  std::string state = invocation.state();
  switch (error.code) {
    case ErrorCode::unavailable:
    case ErrorCode::not_found:
      return failed({ErrorCode::unavailable,
                     "no node runs with state directory " + state + ": start one with `gpunode up" +
                         (invocation.arguments.has("--state") ? " --state " + state : "") +
                         "`, or name its directory with --state"},
                    kNoNode);
    case ErrorCode::peer_lost:
      return failed({error.code, "the node of " + state + " ended before it answered"}, kNoNode);
    case ErrorCode::timeout:
      return failed({error.code, "the node of " + state + " did not answer in time: " +
                                     error.detail + "; try again, or look into its log"},
                    kFailed);
    default:
      return failed(error, kFailed);
  }
}

}  // namespace

Answer ask_node(const Invocation& invocation, const std::string& command,
                const nlohmann::json& arguments, std::chrono::milliseconds timeout) {
  using nlohmann::json;
  std::string request = json{{"command", command}, {"arguments", arguments}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
  const auto waits = [&] {
    if (invocation.json()) return;
    std::fprintf(stderr, "gpunode: the node has not answered yet: waiting up to %lld s\n",
                 static_cast<long long>(std::chrono::ceil<std::chrono::seconds>(timeout).count()));
  };
  auto text = transport::call_local(
      {invocation.state() + "/node.sock", std::move(request), nullptr, timeout, waits});
  if (!text) return unreachable(invocation, text.error());
  if (!json::accept(*text))
    return failed({ErrorCode::peer_lost, "the node ended before it answered"}, kNoNode);
  auto body = parsed_answer(*text);
  if (!body) return failed(body.error(), kFailed);
  return {std::move(*body), std::nullopt, kOk};
}

int fail(const Invocation& invocation, const Error& error, int exit_code) {
  if (invocation.json())
    print(harmless_json(error_json(error)) + "\n");
  else
    std::fprintf(stderr, "gpunode: %s\n", harmless(error.detail).c_str());
  return exit_code;
}

int fail(const Invocation& invocation, const Answer& answer) {
  return fail(invocation, *answer.error, answer.exit_code);
}

std::string word(const nlohmann::json& object, const char* key) {
  return field<std::string>(object, key, "?");
}

std::string number(const nlohmann::json& object, const char* key) {
  return std::to_string(field<std::uint64_t>(object, key, 0));
}

nlohmann::json list(const nlohmann::json& object, const char* key) {
  return field<nlohmann::json>(object, key, nlohmann::json::array());
}

nlohmann::json object(const nlohmann::json& object, const char* key) {
  return field<nlohmann::json>(object, key, nlohmann::json::object());
}

std::string joined(const nlohmann::json& list, const std::string& between) {
  std::string out;
  if (!list.is_array()) return out;
  for (const nlohmann::json& one : list)
    if (one.is_string()) out += (out.empty() ? "" : between) + one.get<std::string>();
  return out;
}

nlohmann::json harmless_answer(const nlohmann::json& answer) {
  using nlohmann::json;
  if (answer.is_string()) return harmless(answer.get_ref<const std::string&>());
  if (!answer.is_structured()) return answer;
  json out = answer.is_array() ? json::array() : json::object();
  for (const auto& [key, value] : answer.items())
    (answer.is_array() ? out.emplace_back() : out[harmless(key)]) = harmless_answer(value);
  return out;
}

int tell(const Invocation& invocation, const Answer& answer,
         const std::function<std::string(const nlohmann::json&)>& text_of) {
  if (!answer) return fail(invocation, answer);
  if (invocation.json())
    print_json(answer.body);
  else
    print(text_of(harmless_answer(answer.body)));
  return kOk;
}

int tell_lines(const Invocation& invocation, const Answer& answer, const char* key) {
  if (!answer || invocation.json()) return tell(invocation, answer, {});
  print(with_line_end(harmless_lines(field<std::string>(answer.body, key, ""))));
  return kOk;
}

void warn(const std::string& text) {
  std::fprintf(stderr, "gpunode: warning: %s\n", harmless(text).c_str());
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void print_json(nlohmann::json fields) {
  print(harmless_json(ok_json(std::move(fields))) + "\n");
}

void print_json(nlohmann::json fields, const std::optional<Error>& wrong) {
  if (!wrong) return print_json(std::move(fields));
  fields["ok"] = false;
  fields["error"] = {{"code", std::string(to_string(wrong->code))}, {"detail", wrong->detail}};
  print(harmless_json(gpunode::text_of(fields)) + "\n");
}

}  // namespace gpunode::cli
