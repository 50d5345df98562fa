// What the routes of the HTTP front have in common: what they are given, and how they refuse.
#pragma once

#include "actors/inference/detail/page_hosts.hpp"
#include "actors/inference/http_front.hpp"
#include "actors/inference/http_gate.hpp"
#include "actors/inference/kserve.hpp"

namespace gpunode::inference {

struct FrontParts {
  HttpFrontOptions options;
  const bool beyond_loopback;  // it listens there
  HttpGate gate;
  std::mutex counts_mutex;
  std::map<std::string, kserve::ModelCounts> counts;  // by models that were served

  explicit FrontParts(HttpFrontOptions given)
      : options(std::move(given)),
        beyond_loopback(!is_loopback_host(options.listen.host) && options.listen.host != "::1"),
        gate(options.keys.get(), *options.clock, options.at_once, options.refused) {}
};

// It failed, and nothing was told: what no model began costs nothing, and else what its key has set aside.
inline void settle(HttpGate::Ticket& ticket, const Error& error) {
  if (error.code == ErrorCode::not_found || error.code == ErrorCode::unavailable ||
      error.code == ErrorCode::resource_exhausted)
    ticket.set_used(0);
}
// Before a model has counted them.
inline std::uint64_t likely_prompt_tokens(const GenerateRequest& text) {
  constexpr std::size_t kBytesOfToken = 4;
  return text.prompt_tokens.size() + (text.prompt.size() + text.chat.size()) / kBytesOfToken;
}

// A request, and who asks.
struct Asked {
  FrontParts& front;
  const http::Request& request;
  Caller caller = {};

  // Among whom a model's time is divided: keys, or addresses where none are wanted.
  std::string client() const {
    return caller.key ? caller.key->id : request.client.substr(0, kLongestClient);
  }
};

inline constexpr const char* kJsonType = "application/json";

// Of a key that was good when it was asked.
inline Error key_is_over() {
  return {ErrorCode::unauthenticated,
          "the API key has expired, or was revoked, before the answer was there"};
}

// As OpenAI's clients read it. `field`: of the request, that it is about.
http::Answer refusal(const Error& error, const std::string& field = "",
                     std::chrono::seconds retry_after = std::chrono::seconds(1));

// As those read it whose protocol the path is of.
http::Answer refusal_at(std::string_view path, const Error& error,
                        std::chrono::seconds retry_after = std::chrono::seconds(1));
std::uint64_t random_seed();

// So often who waits for a model looks whether its client is still there.
inline constexpr auto kLookForClient = std::chrono::milliseconds(100);
// Asks a live replica, as long as somebody waits for it. Fails with: cancelled (its client is gone),
// unauthenticated (its key is good no more), what the replica fails with.
Result<InferAnswer> ask_tensors(const Asked& asked, const std::string& model, InferRequest request,
                                const HttpGate::Ticket& ticket);

http::Answer complete_text(const Asked& asked);
http::Answer complete_chat(const Asked& asked);
http::Answer embed_texts(const Asked& asked);
// That the key sees, all of them or the one that the path names.
http::Answer list_models(const Asked& asked);
http::Answer tell_model(const Asked& asked);

http::Answer kserve_server(const Asked& asked);
http::Answer kserve_live(const Asked& asked);
http::Answer kserve_ready(const Asked& asked);
http::Answer kserve_index(const Asked& asked);
http::Answer kserve_infer(const Asked& asked);
// Of the model that the path names; ready: it has answered a probe now.
http::Answer kserve_model(const Asked& asked);
http::Answer kserve_model_ready(const Asked& asked);
http::Answer kserve_statistics(const Asked& asked);

}  // namespace gpunode::inference
