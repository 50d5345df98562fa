// What a running node is asked by its embedder and by people: calls, published names, commands.
// Each goes to the actor whose it is; called on any thread.
#include <algorithm>
#include <future>

#include "actors/answer_once.hpp"
#include "actors/inference/http_front.hpp"
#include "actors/json_answer.hpp"
#include "actors/node/command_arguments.hpp"
#include "actors/node/commands.hpp"
#include "actors/node/detail/running_node.hpp"
#include "actors/node/http_access.hpp"
#include "actors/node/needed_rights.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::node {
namespace {

constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::hours(24 * 365);

Error stopping() {
  return {ErrorCode::cancelled, "this node is stopping"};
}

// The embedder's own code; what it throws is an answer too.
Result<std::string> run_handler(const Node::Handler& handler, std::string_view request) {
  try {
    return handler(request);
  } catch (const std::exception& thrown) {
    return Error{ErrorCode::internal, std::string("the handler threw: ") + thrown.what()};
  } catch (...) {
    return Error{ErrorCode::internal, "the handler threw"};
  }
}

std::string url_of(const std::unique_ptr<http::Server>& server, const char* path,
                   const char* scheme = "http://") {
  if (!server) return {};
  const HostPort place = server->place();
  return scheme + place.host + ":" + std::to_string(place.port) + path;
}

}  // namespace

std::string RunningNode::metrics_endpoint() const {
  return url_of(metrics_server_, "/metrics");
}

std::string RunningNode::http_endpoint() const {
  return url_of(http_front_, "/v1",
                config_.http_access.certificate.empty() ? "http://" : "https://");
}

Result<void> RunningNode::open_http_front() {
  const auto place = http_place(config_);
  if (!place) return place.error();
  const HttpAccess& access = config_.http_access;
  inference::HttpFrontOptions options;
  options.listen = *place;
  options.clock = parts_.clock;
  options.registry = &metrics_;
  options.metrics = [this] { return metrics(); };
  options.origins = access.origins;
  if (!access.certificate.empty()) options.tls = http::TlsFiles{access.certificate, access.key};
  const bool needs = needs_keys(config_, *place);
  options.keys = std::make_shared<inference::KeyRing>(
      entry_->state.files(), entry_->state.within(inference::KeyRing::kFile), *parts_.clock, needs);
  const auto keys = options.keys->count();
  if (!keys) return keys.error().within("--http");
  if (needs && *keys == 0) return no_keys(config_);
  if (access.without_keys && !options.keys->is_wanted())
    log::warning("http", "anybody who reaches " + config_.http + " may ask (--insecure-http)");
  options.refused = [audit = entry_->http_audit](const std::string& key, std::string_view what) {
    audit->refused(key, what);
  };
  options.generate = [this](inference::GenerateText order) {
    const auto may = may_ask(Asked::command, "generate", authority_.rights(entry_->identity.id()));
    if (!may) return order.done(may.error());
    order.done = AnswerOnce<Result<inference::GenerateAnswer>>(std::move(order.done), stopping());
    send(&Children::serving, std::move(order));
  };
  options.infer = [this](inference::InferOrder order) {
    const auto may = may_ask(Asked::command, "generate", authority_.rights(entry_->identity.id()));
    if (!may) return order.done(may.error());
    order.done = AnswerOnce<Result<inference::InferMessage>>(std::move(order.done), stopping());
    inference::order_infer(
        cluster_state_, [this](CallRequest request) { calls_->start(std::move(request)); },
        std::move(order));
  };
  options.is_live = [this] {
    return model_pulses_->are_live(parts_.clock->now(), config_.device_timeout);
  };
  options.readiness = [this] { return model_pulses_->readiness(*parts_.clock); };
  options.models = [this] { return inference::served_models(*cluster_state_.read()); };
  options.is_asleep = [this](const std::string& model) {
    return inference::sleeps(*cluster_state_.read(), model);
  };
  auto front = inference::open_http_front(std::move(options));
  if (!front) return front.error().within("--http");
  http_front_ = std::move(*front);
  return {};
}

std::string RunningNode::metrics() {
  return metrics_text({&metrics_, &cluster_state_, entry_->link.get(), newest_checkpoints_.get(),
                       parts_.clock, parts_.version});
}

void RunningNode::run_command(const std::string& name, const std::string& arguments,
                              std::function<void(std::string)> answer,
                              std::function<bool()> is_awaited) {
  if (has_ended()) return answer(error_json(stopping()));
  if (auto good = check_arguments(name, arguments); !good) return answer(error_json(good.error()));
  if (auto may = may_ask(Asked::command, name, authority_.rights(entry_->identity.id())); !may)
    return answer(error_json(may.error()));
  caf::actor Children::*target = nullptr;
  if (name == "metrics") return answer(ok_json({{"text", metrics()}}));
  if (name == "node.info")
    return answer(
        node_info_json(*entry_, *cluster_state_.read(), {metrics_endpoint(), http_endpoint()}));
  if (name == "nodes")
    return answer(nodes_json(*entry_, *cluster_state_.read(), parts_.clock->now(),
                             {metrics_endpoint(), http_endpoint()}));
  if (name == "devices") return answer(devices_json(*devices_));
  if (name.starts_with("device.")) return answer(order_device(*devices_, name, arguments));
  if (name == "leave") return leave_if_it_may(arguments, std::move(answer));
  if (name == "stop") {
    answer(ok_json(nlohmann::json::object()));
    return end_soon(false);
  }
  if (name.starts_with("token.") || name == "node.revoke" || name == "keys.rotate" ||
      name == "cluster.refound")
    target = &Children::admission;
  if (name == "train" || name == "jobs" || name.starts_with("job.") || name == "checkpoint.rm")
    target = &Children::job_board;
  if (name == "serve" || name == "unserve" || name == "generate" || name == "models" ||
      name == "model.describe")
    target = &Children::serving;
  GPUNODE_CHECK(target, "every known command has an actor");
  send(target,
       Command{name, arguments, AnswerOnce<std::string>(std::move(answer), error_json(stopping())),
               std::move(is_awaited)});
}

// Refused, with the reason, by who is the last to hold the state of a job.
void RunningNode::leave_if_it_may(const std::string& arguments,
                                  std::function<void(std::string)> answer) {
  auto decide = [this, answer = std::move(answer)](std::string verdict) {
    answer(verdict);
    if (field<bool>(arguments_of(verdict), "ok", false)) end_soon(true);
  };
  send(&Children::job_board,
       Command{"leave", arguments,
               AnswerOnce<std::string>(std::move(decide), error_json(stopping()))});
}

std::string RunningNode::command(const std::string& name, const std::string& arguments) {
  auto promise = std::make_shared<std::promise<std::string>>();
  auto answer = promise->get_future();
  run_command(name, arguments, [promise](std::string text) { promise->set_value(text); });
  return answer.get();
}

Result<void> RunningNode::publish(const std::string& name, Node::Handler handler, Node::Run run) {
  if (auto good = check_published_name(name); !good) return good;
  if (handler && !authority_.may(authority_.self, security::kRightServe))
    return {ErrorCode::permission_denied,
            "this node may not offer '" + name +
                "' to others: it lacks the role serve, which the token gives that it joined with"};
  Publish order{name, nullptr, true, run == Node::Run::on_handler_thread};
  if (handler)
    order.handler = [handler = std::move(handler)](const NodeId&, SharedBytes request,
                                                   CallReply reply) {
      auto answer = run_handler(handler, as_text(request.view));
      reply(answer ? Result<SharedBytes>(SharedBytes::from(to_bytes(as_bytes(*answer))))
                   : Result<SharedBytes>(answer.error()));
    };
  return calls_->publish(order);
}

Result<std::string> RunningNode::call(const std::string& name, std::string_view request,
                                      std::chrono::milliseconds timeout, Node::Retry retry) {
  // A century would not fit into nanoseconds from now on.
  timeout = std::clamp(timeout, std::chrono::milliseconds(0), kLongestTimeout);
  auto result = calls_->ask({.to = {},
                             .name = name,
                             .request = SharedBytes::from(to_bytes(as_bytes(request))),
                             .timeout = timeout,
                             .done = {},
                             .may_repeat = retry == Node::Retry::where_lost});
  if (!result) return result.error();
  return std::string(as_text(result->view));
}

}  // namespace gpunode::node
