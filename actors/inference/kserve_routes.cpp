// KServe's v2 protocol at the HTTP front: health that means something, what models there are and what they
// read, and tensors answered.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <future>

#include "actors/inference/http_routes.hpp"
#include "actors/inference/kserve.hpp"
#include "actors/inference/model_name.hpp"
#include "runtime/base/version.hpp"

namespace gpunode::inference {
namespace {

constexpr auto kProbeTimeout = std::chrono::seconds(2);
constexpr std::string_view kModels = "/v2/models/", kVersions = "/versions/";
constexpr const char *kJsonLength = "inference-header-content-length",
                     *kJsonLengthShown = "Inference-Header-Content-Length";
constexpr const char* kBinaryType = "application/octet-stream";

http::Answer json(std::string body) {
  return {.content_type = kJsonType, .body = std::move(body)};
}

http::Answer refuse(const Asked& asked, const Error& error,
                    std::chrono::seconds retry_after = std::chrono::seconds(1)) {
  return refusal_at(asked.request.path, error, retry_after);
}

// The model that the path names, as it is called: with its version, if that stands there. Fails with
// not_found.
Result<std::string> model_in(const Asked& asked) {
  std::string_view rest = std::string_view(asked.request.path).substr(kModels.size());
  for (const std::string_view tail : {"/infer", "/ready", "/stats"})
    if (rest.ends_with(tail)) {
      rest.remove_suffix(tail.size());
      break;
    }
  const std::string name(rest.substr(0, rest.find('/')));
  rest.remove_prefix(name.size());
  if (!rest.empty() && !rest.starts_with(kVersions))
    return Error{ErrorCode::not_found,
                 "nothing is at " + asked.request.path + "; a model has /infer, /ready and /stats"};
  const std::string version(rest.empty() ? rest : rest.substr(kVersions.size()));
  if (version.find_first_not_of("0123456789") != std::string::npos || version.size() > 15)
    return Error{ErrorCode::not_found, "a version is a number, not '" + version + "'"};
  const auto names = asked.front.options.models();
  if (std::ranges::find(names, name) == names.end() || !asked.caller.sees(name))
    return Error{ErrorCode::not_found, "no node serves a model named '" + name + "'"};
  return version.empty() ? name : name + kBeforeVersion + version;
}

// Waits for what another thread answers, as long as somebody is there who may read it.
template <class Value>
Result<Value> wait_for(const Asked& asked, std::future<Result<Value>> answer,
                       const HttpGate::Ticket* ticket = nullptr) {
  while (answer.wait_for(kLookForClient) != std::future_status::ready) {
    if (!asked.request.is_open())
      return Error{ErrorCode::cancelled, "nobody waits for the answer any more"};
    if (ticket && !ticket->is_good()) return key_is_over();
  }
  return answer.get();
}

std::chrono::milliseconds longest(const Asked& asked) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(asked.front.options.timeout);
}

Result<InferMessage> ask(const Asked& asked, const std::string& model, InferMessage request,
                         std::chrono::milliseconds timeout,
                         const HttpGate::Ticket* ticket = nullptr) {
  auto promise = std::make_shared<std::promise<Result<InferMessage>>>();
  auto answer = promise->get_future();
  asked.front.options.infer(
      {.model = model,
       .request = std::move(request),
       .timeout = timeout,
       .done = [promise](Result<InferMessage> told) { promise->set_value(std::move(told)); }});
  return wait_for(asked, std::move(answer), ticket);
}

Result<GenerateAnswer> generate(const Asked& asked, const std::string& model,
                                GenerateRequest request, const HttpGate::Ticket& ticket) {
  auto promise = std::make_shared<std::promise<Result<GenerateAnswer>>>();
  auto wanted = std::make_shared<std::atomic<bool>>(true);
  auto answer = promise->get_future();
  request.timeout_ms = static_cast<std::uint32_t>(longest(asked).count());
  request.client = asked.client();
  GenerateText order{.model = model, .request = std::move(request)};
  order.on_piece = [wanted](const TextPiece&) { return wanted->load(); };
  order.is_shown = false;
  order.done = [promise](Result<GenerateAnswer> told) { promise->set_value(std::move(told)); };
  asked.front.options.generate(std::move(order));
  auto told = wait_for(asked, std::move(answer), &ticket);
  *wanted = false;
  return told;
}

std::uint64_t most_tokens(const GenerateRequest& text) {
  return text.max_tokens + likely_prompt_tokens(text);
}

// Fails as the model does.
Result<InferAnswer> answer_of(const Asked& asked, const std::string& model,
                              const kserve::InferCall& call, HttpGate::Ticket& ticket) {
  if (call.text) {
    const auto text = generate(asked, model, *call.text, ticket);
    if (!text) return settle(ticket, text.error()), text.error();
    ticket.set_used(std::uint64_t{text->tokens} + text->prompt_tokens);
    return kserve::text_answer(*text);
  }
  return ask_tensors(asked, model, {call.inputs}, ticket);
}

void count(const Asked& asked, const std::string& model, const Result<InferAnswer>& answer,
           Time begin) {
  const Clock& clock = *asked.front.options.clock;
  std::lock_guard lock(asked.front.counts_mutex);
  kserve::ModelCounts& counts = asked.front.counts[model];
  counts.last_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(clock.wall().time_since_epoch())
          .count();
  (answer ? counts.succeeded : counts.failed) += 1;
  (answer ? counts.succeeded_time : counts.failed_time) += clock.now() - begin;
  if (answer) counts.version = answer->version;
  if (answer && !answer->outputs.empty() && !answer->outputs.front().shape.empty())
    counts.rows += static_cast<std::uint64_t>(answer->outputs.front().shape.front());
}

// Nothing: the header is not there.
Result<std::optional<std::size_t>> json_bytes_of(const http::Request& request) {
  const auto written = request.header(kJsonLength);
  if (!request.headers.contains(kJsonLength)) return std::optional<std::size_t>();
  std::size_t bytes = 0;
  const auto read = std::from_chars(written.data(), written.data() + written.size(), bytes);
  if (read.ec != std::errc() || read.ptr != written.data() + written.size())
    return Error{ErrorCode::invalid_argument,
                 std::string(kJsonLengthShown) + " is no number of bytes"};
  return std::optional(bytes);
}

}  // namespace

Result<InferAnswer> ask_tensors(const Asked& asked, const std::string& model, InferRequest request,
                                const HttpGate::Ticket& ticket) {
  auto told = ask(asked, model, std::move(request), longest(asked), &ticket);
  if (!told) return told.error();
  auto* answer = std::get_if<InferAnswer>(&*told);
  if (!answer) return Error{ErrorCode::corrupted, "the replica gave no sensible answer"};
  return std::move(*answer);
}

http::Answer kserve_server(const Asked&) {
  return json(kserve::server(program_version()));
}

http::Answer kserve_live(const Asked& asked) {
  if (!asked.front.options.is_live || asked.front.options.is_live()) return json("{\"live\":true}");
  return refuse(asked,
                {ErrorCode::unavailable,
                 "a model of this node does not get on: the node's log tells of its device"});
}

http::Answer kserve_ready(const Asked& asked) {
  const auto& readiness = asked.front.options.readiness;
  if (const auto ready = readiness ? readiness() : Result<void>(); !ready)
    return refuse(asked, ready.error());
  return json("{\"ready\":true}");
}

http::Answer kserve_index(const Asked& asked) {
  auto names = asked.front.options.models();
  std::erase_if(names, [&](const std::string& name) { return !asked.caller.sees(name); });
  return json(kserve::index(names));
}

http::Answer kserve_model(const Asked& asked) {
  const auto name = model_in(asked);
  if (!name) return refuse(asked, name.error());
  const auto told = ask(asked, *name, InferDescribe{}, kProbeTimeout);
  if (!told) return refuse(asked, told.error());
  const auto* description = std::get_if<InferDescription>(&*told);
  if (!description) return refuse(asked, {ErrorCode::corrupted, "the replica told no description"});
  return json(kserve::model(std::string(name_in(*name)), *description));
}

http::Answer kserve_model_ready(const Asked& asked) {
  const auto name = model_in(asked);
  if (!name) return refuse(asked, name.error());
  // One that sleeps is not woken: who polls would keep it awake.
  if (asked.front.options.is_asleep && asked.front.options.is_asleep(*name))
    return json(kserve::is_ready(std::string(name_in(*name)), ""));
  const auto told = ask(asked, *name, InferDescribe{.probe = true}, kProbeTimeout);
  http::Answer answer =
      json(kserve::is_ready(std::string(name_in(*name)), told ? "" : told.error().message()));
  if (!told) answer.status = 503;
  return answer;
}

http::Answer kserve_statistics(const Asked& asked) {
  const auto name = model_in(asked);
  if (!name) return refuse(asked, name.error());
  std::lock_guard lock(asked.front.counts_mutex);
  const std::string model(name_in(*name));
  return json(kserve::statistics(model, asked.front.counts[model]));
}

http::Answer kserve_infer(const Asked& asked) {
  const auto name = model_in(asked);
  if (!name) return refuse(asked, name.error());
  if (auto may = asked.caller.may_use(*name); !may) return refuse(asked, may.error());
  const auto json_bytes = json_bytes_of(asked.request);
  if (!json_bytes) return refuse(asked, json_bytes.error());
  const auto call = kserve::read_infer(asked.request.body, *json_bytes, random_seed());
  if (!call) return refuse(asked, call.error());
  if (call->text)
    if (auto may = asked.caller.may_go_first(call->text->priority); !may)
      return refuse(asked, may.error());
  std::chrono::seconds retry_after{};
  auto ticket =
      asked.front.gate.begin(asked.caller, call->text ? most_tokens(*call->text) : 0, retry_after);
  if (!ticket) return refuse(asked, ticket.error(), retry_after);
  const Time begin = asked.front.options.clock->now();
  const auto answer = answer_of(asked, *name, *call, **ticket);
  count(asked, std::string(name_in(*name)), answer, begin);
  if (!answer) return refuse(asked, answer.error());
  auto written = kserve::infer_answer(std::string(name_in(*name)), *call, *answer);
  if (!written) return refuse(asked, written.error());
  http::Answer told = json(std::move(written->body));
  if (written->json_bytes) {
    told.content_type = kBinaryType;
    told.headers = {{kJsonLengthShown, std::to_string(*written->json_bytes)}};
  }
  return told;
}

}  // namespace gpunode::inference
