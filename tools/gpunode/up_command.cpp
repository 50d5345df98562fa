// `up` and `join`: this machine's node in this process. The main thread waits for the node to end;
// a second one waits for signals: the first leaves politely, the second ends the process at once,
// which is always safe; SIGHUP opens the log anew.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/base/version.hpp"
#include "runtime/security/private_memory.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/background.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/confinement.hpp"
#include "tools/gpunode/node_log.hpp"
#include "tools/gpunode/node_settings.hpp"
#include "tools/gpunode/recovery.hpp"
#include "tools/gpunode/start_anew.hpp"
#include "tools/gpunode/text.hpp"
#include "tools/gpunode/token_source.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

// Set by who debugs a node: it may leave core dumps then, and be read by its user's processes.
constexpr const char* kDumpableVariable = "GPUNODE_DUMPABLE";

// Takes SIGTERM, SIGINT and SIGHUP away from all threads that are started after it, and hears them
// itself.
class SignalWatch {
 public:
  SignalWatch() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    listener_ = std::thread([this] { listen(); });
  }
  ~SignalWatch() {
    ending_ = true;
    pthread_kill(listener_.native_handle(), SIGTERM);
    listener_.join();
  }
  // on_hangup: what SIGHUP does, where that is not to leave.
  void watch(Node* node, std::function<void()> on_hangup) {
    std::lock_guard lock(mutex_);
    node_ = node;
    on_hangup_ = std::move(on_hangup);
    if (starts_anew_) leave();
  }
  // The node leaves, so that its process can start anew. From any thread.
  void start_anew() {
    std::lock_guard lock(mutex_);
    if (std::exchange(starts_anew_, true) || !node_) return;
    leave();
  }
  bool starts_anew() {
    std::lock_guard lock(mutex_);
    return starts_anew_;
  }
  // After this nobody here touches the node any more; a signal ends the process.
  void unwatch() {
    std::thread leaver;
    {
      std::lock_guard lock(mutex_);
      node_ = nullptr;
      leaver.swap(leaver_);
    }
    if (leaver.joinable()) leaver.join();
  }

 private:
  void listen() {
    for (;;) {
      int signal = 0;
      if (sigwait(&signals_, &signal) != 0 || ending_) return;
      std::lock_guard lock(mutex_);
      if (signal == SIGHUP && on_hangup_) {
        on_hangup_();
        continue;
      }
      if (!node_ || (leaver_.joinable() && !starts_anew_)) _exit(128 + signal);
      starts_anew_ = false;
      log::info("node",
                std::string(strsignal(signal)) + ": leaving the cluster; once more stops at once");
      leave();
    }
  }
  void leave() {
    if (!leaver_.joinable()) leaver_ = std::thread([node = node_] { node->leave(); });
  }

  sigset_t signals_{};
  std::mutex mutex_;
  Node* node_ = nullptr;
  std::function<void()> on_hangup_;
  bool starts_anew_ = false;
  std::atomic<bool> ending_ = false;
  std::thread leaver_;
  std::thread listener_;
};

std::string without_scheme(const std::string& endpoint) {
  return endpoint.starts_with("tcp://") ? endpoint.substr(6) : endpoint;
}

// What nothing may be said of any more after an earlier start.
std::string unless_none(std::string text) {
  return text == "none" ? std::string() : std::move(text);
}

Result<HttpAccess> http_access(const Arguments& arguments) {
  HttpAccess access;
  access.certificate = unless_none(arguments.text("--http-tls-cert"));
  access.key = unless_none(arguments.text("--http-tls-key"));
  access.origins = arguments.all("--cors-origin");
  std::erase(access.origins, "none");
  const std::string without = unless_none(arguments.text("--insecure-http"));
  for (std::string_view rest = without; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (word != "no-keys" && word != "no-tls")
      return Error{ErrorCode::invalid_argument,
                   "--insecure-http wants no-keys, no-tls, or both with a comma, not '" +
                       std::string(word) + "'"};
    (word == "no-keys" ? access.without_keys : access.without_tls) = true;
  }
  return access;
}

Result<NodeConfig> make_config(const Invocation& invocation, const NodeSettings& settings) {
  const Arguments& arguments = settings.arguments();
  NodeConfig config;
  config.state_directory = invocation.state();
  config.name = arguments.text("--name");
  config.listen = listen_address(arguments.text("--listen", config.listen));
  if (config.listen == "none") config.listen.clear();
  config.allow = arguments.all("--allow");
  config.advertise = arguments.text("--advertise");
  config.labels = arguments.all("--label");
  config.data_sets = settings.data_sets();
  config.bulk_plain = arguments.has("--bulk-plain");
  config.metrics = unless_none(arguments.text("--metrics"));
  config.http = unless_none(arguments.text("--http"));
  auto access = http_access(arguments);
  if (!access) return access.error();
  config.http_access = *std::move(access);
  for (const std::string& label : config.labels)
    if (label.empty() || label.front() == '=')
      return Error{ErrorCode::invalid_argument,
                   "--label wants KEY=VALUE or KEY, not '" + label + "'"};
  auto threads = arguments.whole("--threads", 0, 1, 1024);
  if (!threads) return threads.error();
  config.threads = static_cast<int>(*threads);
  config.device = arguments.text("--device", config.device);
  auto timeout = arguments.duration("--device-timeout", config.device_timeout);
  if (!timeout) return timeout.error();
  if (*timeout < std::chrono::seconds(1))
    return Error{ErrorCode::invalid_argument, "--device-timeout wants at least 1s, not '" +
                                                  arguments.text("--device-timeout") + "'"};
  config.device_timeout = *timeout;
  if (invocation.command->name == "join")
    config.join = without_scheme(arguments.text("HOST[:PORT]"));
  return config;
}

std::string addresses(const json& answer, const char* key) {
  std::string out;
  for (const std::string& one : field<std::vector<std::string>>(answer, key, {}))
    out += (out.empty() ? "" : ",") + without_scheme(one);
  return out;
}

json up_answer(const Invocation& invocation, const Node& node, const std::string& sandbox) {
  json answer = {{"name", node.name()},
                 {"id", node.id()},
                 {"endpoints", node.endpoints()},
                 {"join_endpoints", node.join_endpoints()},
                 {"metrics", node.metrics_endpoint()},
                 {"http", node.http_endpoint()},
                 {"state", invocation.state()},
                 {"sandbox", sandbox},
                 {"pid", getpid()}};
  if (const auto key = recovery_key_of(invocation); !key.empty()) answer["recovery_key"] = key;
  return answer;
}

std::string up_text(const json& answer) {
  std::string text =
      "node " + word(answer, "name") + " (" + word(answer, "id").substr(0, 8) + ") is up";
  if (const auto metrics = field<std::string>(answer, "metrics", ""); !metrics.empty())
    text += "; metrics " + metrics;
  if (const auto http = field<std::string>(answer, "http", ""); !http.empty())
    text += "; inference " + http;
  if (list(answer, "join_endpoints").empty())
    return text + "; it only dials, so others join at another node";
  return text + "; control " + addresses(answer, "endpoints") + ", join " +
         addresses(answer, "join_endpoints");
}

void announce(const Invocation& invocation, const json& answer) {
  tell(invocation, {answer, std::nullopt, kOk}, [](const json& told) {
    const auto join = field<std::vector<std::string>>(told, "join_endpoints", {});
    std::string text = up_text(told);
    if (!join.empty())
      text += "; to let others in: `gpunode token create` here, then there `gpunode join " +
              without_scheme(join.front()) + " --token-file FILE`";
    text += "\n";
    if (const auto key = field<std::string>(told, "recovery_key", ""); !key.empty())
      text += recovery_key_advice(key);
    return text;
  });
}

}  // namespace

int run_up(const Invocation& invocation) {
  const auto settings = NodeSettings::read(invocation);
  if (!settings) return fail(invocation, settings.error(), kUsage);
  auto config = make_config(invocation, *settings);
  if (!config) return fail(invocation, settings->explained(config.error()), kUsage);
  if (!std::getenv(kDumpableVariable))
    if (auto hidden = security::keep_memory_private(); !hidden) warn(hidden.error().detail);
  auto token = take_token(invocation.arguments.text("--token-file"));
  if (!token) return fail(invocation, token.error());
  if (!config->join.empty()) config->token = std::move(*token);
  std::unique_ptr<Background> background;
  if (invocation.arguments.has("--detach")) {
    auto begun = Background::begin();  // before the first thread
    if (!begun) return fail(invocation, begun.error());
    if (begun->exit_code) return *begun->exit_code;
    background = std::move(begun->child);
  }
  const std::string on_loss = settings->arguments().text("--on-device-loss", "restart");
  if (on_loss != "restart" && on_loss != "stay")
    return fail(
        invocation,
        {ErrorCode::invalid_argument, "--on-device-loss is restart or stay, not '" + on_loss + "'"},
        kUsage);
  if (auto good = Node::check(*config); !good)
    return fail(invocation, settings->explained(good.error()));
  std::string sandbox = "off, by --no-sandbox";
  if (!settings->arguments().has("--no-sandbox")) {
    const auto confined = confine(invocation.state(), config->device != "cpu");
    if (!confined) return fail(invocation, confined.error());
    sandbox = security::to_text(*confined);
  }
  NodeLog node_log(
      {.json = settings->arguments().has("--log-json"), .detaches = background != nullptr});
  log::info("node", "gpunode " + std::string(program_version()) + " starts, pid " +
                        std::to_string(getpid()) + ", state " + invocation.state() +
                        "; sandbox: " + sandbox);
  SignalWatch signals;
  if (on_loss == "restart")
    config->on_device_lost = [&signals](const auto&, const auto&) { signals.start_anew(); };
  auto node = invocation.platform->start_node(std::move(*config));
  if (!node) return fail(invocation, settings->explained(node.error()));
  const json answer = up_answer(invocation, **node, sandbox);
  log::info("node", up_text(answer));
  if (auto kept = settings->remember(); !kept)
    log::warning("node", "the next start has to be told anew: " + kept.error().message());
  announce(invocation, answer);  // before the output is the log's
  Result<void> detached = node_log.begin(invocation.state());
  // A node in front of a person ends with the terminal; else the log's file has been moved away.
  const bool attended = !background && isatty(STDERR_FILENO);
  signals.watch(
      node->get(), attended ? std::function<void()>() : [&] { node_log.reopen(); });
  if (background && detached) detached = background->detach();
  if (detached) (*node)->wait();
  signals.unwatch();
  if (!detached) return fail(invocation, detached.error());
  if (signals.starts_anew()) return start_anew(invocation, settings->file());
  if (std::string why = (*node)->failure(); !why.empty())
    return fail(invocation, {ErrorCode::internal, why});
  log::info("node", "has ended");
  return kOk;
}

}  // namespace gpunode::cli
