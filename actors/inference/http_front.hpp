// Inference over HTTP, for clients that know OpenAI's API: completions of texts and of chats, whole or
// streamed, and the models that the cluster serves. Any node answers for any model. Nothing authenticates a client, so it is for
// loopback; pages of a browser are kept out by their Host, Origin and content type. Each request that is
// answered has a thread of the server's, which waits while the model works. Any thread may own it.
//
//   GET  /v1/models, /v1/models/NAME    POST /v1/completions, /v1/chat/completions    GET /health
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/inference/serving_actor.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/http/server.hpp"

namespace gpunode::inference {

struct HttpFrontOptions {
  HostPort listen;  // digits, loopback
  // Both from any thread; may not wait.
  std::function<void(GenerateText)> generate;
  std::function<std::vector<std::string>()> models;  // that are served anywhere, each once
  const Clock* clock = nullptr;
  // For a whole answer; it is refused or cut then.
  Duration timeout = std::chrono::minutes(2);
  std::size_t threads = 32;  // answers at once
};

// Fails with: what http::Server::open fails with.
Result<std::unique_ptr<http::Server>> open_http_front(HttpFrontOptions options);

}  // namespace gpunode::inference
