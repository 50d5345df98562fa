#include "actors/inference/detail/text_orders.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <atomic>
#include <span>

#include "actors/inference/detail/infer_orders.hpp"
#include "actors/inference/detail/model_actor.hpp"
#include "actors/inference/detail/model_book.hpp"
#include "actors/json_answer.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::inference {
namespace {

// Of a piece of a text; a later one that arrives says as much.
constexpr auto kPieceTimeout = std::chrono::seconds(5);

Result<GenerateAnswer> answer_in(const Result<SharedBytes>& bytes, const std::string& model,
                                 bool known) {
  if (!bytes) return failure_of(bytes.error(), model, known);
  auto message = decode_generate(bytes->view);
  auto* answer = message ? std::get_if<GenerateAnswer>(&*message) : nullptr;
  if (!answer) return no_answer();
  return std::move(*answer);
}

PieceTeller::Send send_to(const NodeId& asker, const caf::actor& calls) {
  return [asker, calls](const GeneratePiece& piece, std::function<void(Result<void>)> arrived) {
    caf::anon_send(
        calls, CallRequest{.to = asker,
                           .name = kPieceCall,
                           .request = SharedBytes::from(encode(piece)),
                           .timeout = kPieceTimeout,
                           .done =
                               [arrived = std::move(arrived)](const Result<SharedBytes>& result) {
                                 arrived(result ? Result<void>() : Result<void>(result.error()));
                               },
                           .may_repeat = false});
  };
}

}  // namespace

// The same of texts that begin alike.
std::uint64_t affinity_of(const GenerateRequest& request) {
  constexpr std::size_t kBytes = 256, kTokens = 64;
  std::uint64_t hash = 0;
  if (!request.prompt_tokens.empty()) {
    for (const std::int32_t token :
         std::span(request.prompt_tokens).first(std::min(kTokens, request.prompt_tokens.size())))
      hash = mix(hash, static_cast<std::uint32_t>(token));
    return hash;
  }
  const std::string& text = request.chat.empty() ? request.prompt : request.chat;
  for (const char byte : std::string_view(text).substr(0, kBytes))
    hash = mix(hash, static_cast<unsigned char>(byte));
  return hash;
}

bool is_offered(const ClusterSnapshot& cluster, const std::string& model) {
  return std::ranges::any_of(cluster.entries,
                             [key = "service/" + call_name(model)](const DirectoryEntry& entry) {
                               return entry.key == key;
                             });
}

Error failure_of(const Error& call, const std::string& model, bool known) {
  const bool absent =
      call.code == ErrorCode::not_found || (call.code == ErrorCode::unavailable && !known);
  // It was asked of all that were left.
  if (call.code == ErrorCode::peer_lost)
    return {call.code, call.detail + ", and no other node serves the model '" + model + "'"};
  if (!absent) return call;
  return {ErrorCode::not_found, "no node serves a model named '" + model +
                                    "': `gpunode models` lists what is served, `gpunode serve` "
                                    "offers one"};
}

Error no_answer() {
  return {ErrorCode::corrupted, "the replica gave no sensible answer"};
}

PlaceWait wait_for_place(bool known) {
  constexpr int kMostForNews = 16;
  static std::atomic<int> waiting = 0;
  if (known) return {};
  if (++waiting > kMostForNews) return --waiting, PlaceWait{std::chrono::milliseconds(1), nullptr};
  return {std::chrono::seconds(3), {&waiting, [](std::atomic<int>* count) { --*count; }}};
}

Time answer_by_of(const CallReply& reply, Time now, std::chrono::milliseconds timeout) {
  constexpr Duration kLongestWay = std::chrono::milliseconds(200);
  if (reply.deadline() == Time::max()) return now + timeout;
  const Duration left = std::min<Duration>(timeout, reply.deadline() - now);
  return now + left - std::clamp(left / 20, Duration::zero(), kLongestWay);
}

void order_text(const ServingOptions& options, const std::shared_ptr<TextStreams>& streams,
                GenerateText order) {
  const std::chrono::milliseconds timeout(order.request.timeout_ms);
  const bool known = is_offered(*options.cluster->read(), order.model);
  order.request.stream =
      order.on_piece ? streams->open(std::move(order.on_piece), order.is_shown) : 0;
  const PlaceWait place = wait_for_place(known);
  const auto done = [streams, stream = order.request.stream, model = order.model, known,
                     held = place.held, cluster = options.cluster,
                     done = std::move(order.done)](const Result<SharedBytes>& bytes) {
    auto answer = answer_in(bytes, model, known || is_offered(*cluster->read(), model));
    const Result<void> told =
        answer ? streams->close(stream, {answer->text, answer->reports}) : Result<void>();
    streams->close(stream);
    done(told ? std::move(answer) : Result<GenerateAnswer>(told.error()));
  };
  caf::anon_send(options.calls, CallRequest{.to = {},
                                            .name = call_name(order.model),
                                            .request = SharedBytes::from(encode(order.request)),
                                            .timeout = timeout,
                                            .done = done,
                                            .may_repeat = true,
                                            .affinity = affinity_of(order.request),
                                            .elsewhere_if_refused = true,
                                            .placed_within = place.longest});
}

GenerateText text_order_of(const Command& command, const Clock& clock) {
  const nlohmann::json arguments = arguments_of(command.arguments);
  GenerateText order;
  order.model = field<std::string>(arguments, "model", "");
  order.request = {.prompt = field<std::string>(arguments, "prompt", ""),
                   .max_tokens = field<std::uint32_t>(arguments, "max_tokens", 128),
                   .temperature = field<double>(arguments, "temperature", 1.0),
                   .top_k = field<std::uint32_t>(arguments, "top_k", 0),
                   .top_p = field<double>(arguments, "top_p", 1.0),
                   .min_p = field<double>(arguments, "min_p", 0.0),
                   .presence_penalty = field<double>(arguments, "presence_penalty", 0.0),
                   .frequency_penalty = field<double>(arguments, "frequency_penalty", 0.0),
                   .repetition_penalty = field<double>(arguments, "repetition_penalty", 1.0),
                   .stop = field<std::vector<std::string>>(arguments, "stop", {}),
                   .seed = field<std::uint64_t>(arguments, "seed", 1),
                   .timeout_ms = field<std::uint32_t>(arguments, "timeout_ms", 30'000),
                   .priority = field<std::uint32_t>(arguments, "priority", 0),
                   .whole_prompt = true};
  std::shared_ptr<std::atomic<Duration::rep>> first;  // since the clock's begin; 0: not yet
  if (field<bool>(arguments, "tell_first", false)) {
    first = std::make_shared<std::atomic<Duration::rep>>(0);
  }
  order.is_shown = false;
  if (first || command.is_awaited)
    order.on_piece = [first, awaited = command.is_awaited, &clock](const TextPiece& piece) {
      if (first && *first == 0 && !piece.text.empty())
        *first = clock.now().time_since_epoch().count();
      return !awaited || awaited();
    };
  order.done = [model = order.model, answer = command.answer, first,
                &clock](const Result<GenerateAnswer>& text) {
    if (!text) return answer(error_json(text.error()));
    nlohmann::json told({{"model", model},
                         {"text", text->text},
                         {"tokens", text->tokens},
                         {"prompt_tokens", text->prompt_tokens},
                         {"finish", text->finish},
                         {"digest", text->model_digest},
                         {"version", text->version},
                         {"step", text->step},
                         {"seconds", text->seconds}});
    if (first && *first != 0)
      told["after_first_seconds"] =
          std::chrono::duration<double>(clock.now().time_since_epoch() - Duration(*first)).count();
    answer(ok_json(std::move(told)));
  };
  return order;
}

CallHandler answer_by(Replica replica, const ServingOptions& options) {
  return [replica = std::move(replica), options](const NodeId& from, SharedBytes bytes,
                                                 CallReply reply) {
    if (is_infer(bytes.view))
      return pass_infer(replica, options, {from, bytes.view, std::move(reply)});
    auto message = decode_generate(bytes.view);
    if (!message) return reply(message.error());
    auto* request = std::get_if<GenerateRequest>(&*message);
    if (!request) return reply(Error{ErrorCode::invalid_argument, "not a request"});
    const Time deadline =
        answer_by_of(reply, options.clock->now(), std::chrono::milliseconds(request->timeout_ms));
    auto send = request->stream ? send_to(from, options.calls) : PieceTeller::Send();
    caf::anon_send(replica.model, Generate{std::move(*request), from, deadline, std::move(reply),
                                           std::move(send)});
  };
}

CallHandler answer_pieces(std::shared_ptr<TextStreams> streams) {
  return [streams = std::move(streams)](const NodeId&, SharedBytes bytes, CallReply reply) {
    const auto message = decode_generate(bytes.view);
    if (!message) return reply(message.error());
    const auto* piece = std::get_if<GeneratePiece>(&*message);
    if (!piece) return reply(Error{ErrorCode::invalid_argument, "not a piece of a text"});
    const auto taken = streams->on_piece(*piece);
    reply(taken ? Result<SharedBytes>(SharedBytes()) : Result<SharedBytes>(taken.error()));
  };
}

}  // namespace gpunode::inference
