// What the routes of the HTTP front have in common: what they are given, and how they refuse.
#pragma once

#include "actors/inference/http_front.hpp"
#include "actors/inference/http_gate.hpp"

namespace gpunode::inference {

struct FrontParts {
  HttpFrontOptions options;
  HttpGate gate;

  explicit FrontParts(HttpFrontOptions given)
      : options(std::move(given)), gate(options.keys.get(), *options.clock, options.at_once) {}
};

// A request, and who asks.
struct Asked {
  FrontParts& front;
  const http::Request& request;
  Caller caller = {};
};

inline constexpr const char* kJsonType = "application/json";

// As OpenAI's clients read it. `field`: of the request, that it is about.
http::Answer refusal(const Error& error, const std::string& field = "",
                     std::chrono::seconds retry_after = std::chrono::seconds(1));

http::Answer complete_text(const Asked& asked);
http::Answer complete_chat(const Asked& asked);
// That the key sees, all of them or the one that the path names.
http::Answer list_models(const Asked& asked);
http::Answer tell_model(const Asked& asked);

}  // namespace gpunode::inference
