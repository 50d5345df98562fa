// Inference over HTTP, for clients that know OpenAI's API (completions of texts and of chats, whole or
// streamed) or KServe's (tensors), and the models that the cluster serves. Any node answers for any model. Who may ask says a
// key (key_ring.hpp); without one it is for loopback, or a network that is trusted, where pages of a browser
// are kept out by their Host, Origin and content type. Each request that is answered has a thread of the server's, which waits while
// the model works; a few threads are left to what needs no model. Any thread may own it.
//
//   OpenAI  GET /v1/models, /v1/models/NAME   POST /v1/completions, /v1/chat/completions, /v1/embeddings
//   KServe  GET /v2, /v2/health/live, /v2/health/ready, /v2/models/NAME[/ready|/stats]
//           POST /v2/models/NAME/infer, /v2/repository/index
//   GET /health, /metrics, and / or /chat: a page to talk with the models (chat_page.hpp)
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/inference/key_ring.hpp"
#include "actors/inference/serving_actor.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/http/server.hpp"
#include "runtime/telemetry/registry.hpp"

namespace gpunode::inference {

struct HttpFrontOptions {
  HostPort listen;  // digits
  // From any thread; may not wait.
  std::function<void(GenerateText)> generate;
  std::function<void(InferOrder)> infer = {};
  std::function<std::vector<std::string>()> models;  // that are served anywhere, each once
  // Whether all replicas of a model gave its memory back until somebody asks; empty: none does.
  std::function<bool(const std::string& model)> is_asleep = {};
  std::function<std::string()> metrics = {};  // the node's figures; empty: none are shown
  // Whether the models of this node get on; empty: they do.
  std::function<bool()> is_live = {};
  // Whether they all compute; may wait for it, some seconds. Fails with why not; empty: they do.
  std::function<Result<void>()> readiness = {};
  const Clock* clock = nullptr;
  telemetry::Registry* registry = nullptr;  // where requests are counted; null: nowhere
  std::shared_ptr<KeyRing> keys = {};       // null: anybody may ask
  // Is told who was refused what: the key's name, empty where it is nobody's. Any thread; quick.
  std::function<void(const std::string& key, std::string_view what)> refused = {};
  std::optional<http::TlsFiles> tls = {};
  // Of pages that may ask, "https://app.example"; "*": any, which wants keys.
  std::vector<std::string> origins = {};
  // For a whole answer; it is refused or cut then.
  Duration timeout = std::chrono::minutes(2);
  std::size_t at_once = 128;  // requests that a model works on
  // For a request to come, and a connection between two of them.
  Duration deadline = std::chrono::seconds(10), idle = std::chrono::seconds(60);
  std::size_t connections = 2048, connections_of_address = 512;
};

// Fails with: what http::Server::open fails with; invalid_argument (an origin that is none).
Result<std::unique_ptr<http::Server>> open_http_front(HttpFrontOptions options);

}  // namespace gpunode::inference
