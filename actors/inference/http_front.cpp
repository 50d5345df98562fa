#include "actors/inference/http_front.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "actors/inference/chat_page.hpp"
#include "actors/inference/detail/page_hosts.hpp"
#include "actors/inference/http_routes.hpp"

namespace gpunode::inference {
namespace {

constexpr std::size_t kHeadBytes = 32 << 10;
constexpr std::size_t kLongestRequestBytes = 4 << 20;  // tensors; texts are shorter
// Threads that no model is waited for on.
constexpr std::size_t kThreadsBeside = 8;

// Where no key is wanted. A page of some website, which has its own name lead here, had a browser ask: it
// names that in Host. One that names the site in Origin is asked for by origins alone.
std::optional<Error> refuse_page(const FrontParts& front, const http::Request& asked) {
  const std::string_view host = asked.header("host");
  if (host.empty() || is_loopback_host(host)) return {};  // empty: HTTP/1.0
  if (!front.beyond_loopback)
    return Error{ErrorCode::permission_denied,
                 "pages of other sites are not answered: ask from a program on this machine, by "
                 "127.0.0.1"};
  if (is_local_host(host)) return {};
  return Error{
      ErrorCode::permission_denied,
      "pages of other sites are not answered, and the name that was asked for may be one's: "
      "ask by this node's address, or make keys (`gpunode http-key create NAME`)"};
}

http::Answer tell_metrics(const Asked& asked) {
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = asked.front.options.metrics()};
}

constexpr std::string_view kKserve = "/v2";

struct Route {
  const char* path;  // one with a '*' names something there
  const char* method;
  http::Answer (*answer)(const Asked& asked);
  ApiRights right = 0;  // 0: anybody may
};
constexpr Route kRoutes[] = {
    {"/v1/completions", "POST", complete_text, kMayInfer},
    {"/v1/chat/completions", "POST", complete_chat, kMayInfer},
    {"/v1/embeddings", "POST", embed_texts, kMayInfer},
    {"/v1/models", "GET", list_models, kMayList},
    {"/v1/models/*", "GET", tell_model, kMayList},
    {"/v2", "GET", kserve_server, kMayList},
    {"/v2/health/live", "GET", kserve_live},
    {"/v2/health/ready", "GET", kserve_ready},
    {"/v2/repository/index", "POST", kserve_index, kMayList},
    {"/v2/models/*/infer", "POST", kserve_infer, kMayInfer},
    {"/v2/models/*/ready", "GET", kserve_model_ready, kMayList},
    {"/v2/models/*/stats", "GET", kserve_statistics, kMayList},
    {"/v2/models/*", "GET", kserve_model, kMayList},
    {"/metrics", "GET", tell_metrics, kMayMetrics},
    {"/", "GET", [](const Asked&) { return chat_page_answer(); }},
    {"/chat", "GET", [](const Asked&) { return chat_page_answer(); }},
    {"/health", "GET", [](const Asked&) { return http::Answer{.body = "ok\n"}; }},
};

// A model, perhaps with its version as KServe's protocol has it.
bool names_something(std::string_view text) {
  const std::size_t slash = text.find('/');
  return !text.empty() && slash != 0 &&
         (slash == text.npos || text.substr(slash).starts_with("/versions/"));
}

bool leads_to(const Route& route, std::string_view path) {
  const std::string_view own = route.path;
  const std::size_t star = own.find('*');
  if (star == std::string_view::npos) return path == own;
  const std::string_view before = own.substr(0, star), behind = own.substr(star + 1);
  return path.size() > own.size() - 1 && path.starts_with(before) && path.ends_with(behind) &&
         names_something(path.substr(before.size(), path.size() - own.size() + 1));
}

const Route* route_of(const HttpFrontOptions& options, std::string_view path) {
  for (const Route& route : kRoutes)
    if (leads_to(route, path) && (route.right != kMayMetrics || options.metrics)) return &route;
  return nullptr;
}

bool reads(const http::Request& asked) {
  return asked.method == "GET" || asked.method == "HEAD";
}

http::Answer no_such_path(const HttpFrontOptions& options, const http::Request& asked) {
  std::string known;
  for (const Route& route : kRoutes)
    if (route_of(options, route.path)) known += std::string(known.empty() ? "" : ", ") + route.path;
  return refusal_at(asked.path,
                    {ErrorCode::not_found, "nothing is at " + asked.path + "; there are " + known});
}

http::Answer with_status(http::Answer answer, int status) {
  answer.status = status;
  return answer;
}

// Pages can send others unasked. Clients of KServe's protocol name none, or that of bytes.
bool is_known_type(const Route& route, std::string_view type) {
  const bool is_kserve = std::string_view(route.path).starts_with(kKserve);
  return type.starts_with(kJsonType) ||
         (is_kserve && (type.empty() || type.starts_with("application/octet-stream")));
}

// What is wrong with the request whatever its body is; who asks, where nothing is.
std::optional<http::Answer> look(const FrontParts& front, const http::Request& asked,
                                 Caller& caller) {
  const Route* route = route_of(front.options, asked.path);
  if (route && route->right == 0 && reads(asked)) return {};
  if (!front.gate.wants_keys())
    if (const auto refused = refuse_page(front, asked)) return refusal_at(asked.path, *refused);
  auto admitted = front.gate.admit(asked);
  if (!admitted) return refusal_at(asked.path, admitted.error());
  caller = *std::move(admitted);
  if (!route) return no_such_path(front.options, asked);
  if ((reads(asked) ? "GET" : asked.method) != route->method) {
    http::Answer wrong = with_status(
        refusal_at(asked.path, {ErrorCode::invalid_argument,
                                asked.path + " is asked by " + route->method + " only"}),
        405);
    wrong.headers.emplace_back("Allow", route->method);
    return wrong;
  }
  if (auto may = caller.may(route->right); !may) return refusal_at(asked.path, may.error());
  if (!reads(asked) && !is_known_type(*route, asked.header("content-type")))
    return with_status(refusal_at(asked.path, {ErrorCode::invalid_argument,
                                               "the Content-Type must be application/json"}),
                       415);
  return {};
}

// A page's browser asks first whether it may, and is told afterwards that it might.
struct Origins {
  std::vector<std::string> allowed;
  std::string scheme = "http://";  // of the front itself

  // The front's own page, as browsers tell by the name that they reached it under. A site that leads its own
  // name here is told apart where no keys are wanted (refuse_page), and has no key elsewhere.
  bool is_own(const http::Request& asked) const {
    return asked.header("origin") == scheme + std::string(asked.header("host"));
  }

  bool allows(std::string_view origin) const {
    return std::ranges::any_of(allowed,
                               [&](const std::string& one) { return one == "*" || one == origin; });
  }
  // Nothing where no page asks.
  std::optional<http::Answer> refuse(const http::Request& asked) const {
    const std::string_view origin = asked.header("origin");
    if (origin.empty() || allows(origin) || is_own(asked)) return {};
    return refusal_at(asked.path,
                      {ErrorCode::permission_denied,
                       "pages of other sites are not answered, and " + std::string(origin) +
                           " is none of those that may ask (--cors-origin)"});
  }
  static bool is_preflight(const http::Request& asked) {
    return asked.method == "OPTIONS" && !asked.header("origin").empty() &&
           !asked.header("access-control-request-method").empty();
  }
  static http::Answer preflight(const http::Request& asked) {
    http::Answer answer{.status = 204};
    answer.headers = {{"Access-Control-Allow-Methods", "GET, POST"},
                      {"Access-Control-Max-Age", "600"}};
    if (const auto wanted = asked.header("access-control-request-headers"); !wanted.empty())
      answer.headers.emplace_back("Access-Control-Allow-Headers", wanted);
    return answer;
  }
  void tell(const http::Request& asked, http::Answer& answer) const {
    const std::string_view origin = asked.header("origin");
    if (allowed.empty()) return;
    answer.headers.emplace_back("Vary", "Origin");
    if (origin.empty() || !allows(origin)) return;
    answer.headers.emplace_back("Access-Control-Allow-Origin", origin);
    answer.headers.emplace_back("Access-Control-Expose-Headers",
                                "Retry-After, Inference-Header-Content-Length");
  }
};

// "https://app.example:8443", as browsers write it.
bool is_origin(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!text.starts_with(scheme)) continue;
    const std::string_view host = text.substr(scheme.size());
    return !host.empty() && std::ranges::all_of(host, [](unsigned char letter) {
      return letter > ' ' && letter < 0x7f && letter != '/' && letter != '*' && letter != '?' &&
             letter != '#' && letter != '@';
    });
  }
  return false;
}

Result<void> check_origins(const HttpFrontOptions& options) {
  for (const std::string& origin : options.origins) {
    if (origin == "*" && !(options.keys && options.keys->is_wanted()))
      return Error{ErrorCode::invalid_argument,
                   "--cors-origin '*' would let every page that anybody opens ask without a key: "
                   "name the pages, or make a key (`gpunode http-key create NAME`)"};
    if (origin != "*" && !is_origin(origin))
      return Error{ErrorCode::invalid_argument, "--cors-origin '" + origin +
                                                    "' is no origin of a page: write "
                                                    "https://HOST or https://HOST:PORT, no path"};
  }
  return {};
}

class Front {
 public:
  explicit Front(HttpFrontOptions options)
      : origins_{options.origins, options.tls ? "https://" : "http://"},
        parts_(std::move(options)) {}

  http::Answer answer(const http::Request& asked) {
    Asked now{parts_, asked};
    http::Answer told = answer_of(now);
    return finished(asked, std::move(told), now.caller);
  }
  std::optional<http::Answer> look_at_head(const http::Request& head) {
    auto instead = origins_.refuse(head);
    Caller caller;
    if (!instead) instead = look(parts_, head, caller);
    if (!instead) return {};
    return finished(head, *std::move(instead), caller);
  }
  // What the server refuses by itself.
  http::Answer refuse(const http::Request& asked, int status, const std::string& why) {
    const ErrorCode code = status == 408   ? ErrorCode::timeout
                           : status == 503 ? ErrorCode::unavailable
                           : status == 500 ? ErrorCode::internal
                                           : ErrorCode::invalid_argument;
    return finished(asked, with_status(refusal_at(asked.path, {code, why}), status), {});
  }

 private:
  http::Answer answer_of(Asked& now) {
    const http::Request& asked = now.request;
    if (auto refused = origins_.refuse(asked)) return *std::move(refused);
    if (Origins::is_preflight(asked)) return Origins::preflight(asked);
    if (auto refused = look(parts_, asked, now.caller)) return *std::move(refused);
    return route_of(parts_.options, asked.path)->answer(now);
  }
  // Wrong keys and rights that are lacking are counted by who asked; never what a stranger wrote is.
  void tell_refused(const http::Request& asked, int status, const Caller& caller) const {
    if (!parts_.options.refused || (status != 401 && status != 403)) return;
    const Route* route = route_of(parts_.options, asked.path);
    parts_.options.refused(caller.key ? caller.key->name : "",
                           (status == 401 ? "no good key for " : "no right to ") +
                               std::string(route ? route->path : "a path that is not there"));
  }
  http::Answer finished(const http::Request& asked, http::Answer answer,
                        const Caller& caller) const {
    origins_.tell(asked, answer);
    tell_refused(asked, answer.status, caller);
    if (telemetry::Counter* counter = answered_with(answer.status)) counter->add();
    return answer;
  }
  // Looked up once for each status; null: nobody counts.
  telemetry::Counter* answered_with(int status) const {
    auto& known = answered_.at(static_cast<std::size_t>(status) % answered_.size());
    if (telemetry::Counter* counter = known.load(std::memory_order_acquire)) return counter;
    if (!parts_.options.registry) return nullptr;
    telemetry::Counter* counter = &parts_.options.registry->counter(
        "gpunode_http_requests_total", "Requests that were answered over HTTP",
        {{"code", std::to_string(status)}});
    known.store(counter, std::memory_order_release);
    return counter;
  }

  const Origins origins_;
  FrontParts parts_;
  mutable std::array<std::atomic<telemetry::Counter*>, 1000> answered_{};
};

}  // namespace

http::Answer refusal_at(std::string_view path, const Error& error,
                        std::chrono::seconds retry_after) {
  http::Answer answer = refusal(error, "", retry_after);
  if (!path.starts_with(kKserve)) return answer;
  answer.status = kserve::status_of(error);
  answer.body = kserve::error_body(error);
  return answer;
}

Result<std::unique_ptr<http::Server>> open_http_front(HttpFrontOptions options) {
  if (auto good = check_origins(options); !good) return good.error();
  http::ServerOptions server{.listen = options.listen,
                             .threads = options.at_once + kThreadsBeside,
                             .connections = options.connections,
                             .connections_of_address = options.connections_of_address,
                             .deadline = options.deadline,
                             .answer_deadline = options.timeout + std::chrono::seconds(10),
                             .idle = options.idle,
                             .head_bytes = kHeadBytes,
                             .body_bytes = kLongestRequestBytes};
  server.tls = options.tls;
  auto front = std::make_shared<Front>(std::move(options));
  server.look_at_head = [front](const http::Request& head) { return front->look_at_head(head); };
  server.refuse = [front](const http::Request& asked, int status, const std::string& why) {
    return front->refuse(asked, status, why);
  };
  return http::Server::open(std::move(server),
                            [front](const http::Request& asked) { return front->answer(asked); });
}

}  // namespace gpunode::inference
