// The answering side of calls: which handler runs where, within the limits of who asks.
#include "actors/answer_once.hpp"
#include "actors/node/calls.hpp"
#include "actors/node/needed_rights.hpp"

namespace gpunode::node {
namespace {

struct Outcome {
  Result<SharedBytes> result;
  bool not_run = false;
  bool lost = false;
};

Error too_much(Load load) {
  return {ErrorCode::resource_exhausted,
          "this node has as much from you of the kind '" + std::string(limit_of(load).name) +
              "' as it takes of one node: wait for its answers, and ask again later"};
}

}  // namespace

// The one place where the name and the caller of a call are known and its handler has not run.
void Calls::run_handler(const NodeId& from, std::uint64_t call, const CallHeader& header,
                        SharedBytes request) {
  const std::string& name = header.name;
  const Load load = load_of(Asked::call, name);
  PeerLimits::Place place;
  if (from != options_.self) {
    place = options_.limits->enter(from, load, name.size() + request.size());
    if (!place) return answer(from, call, load, too_much(load), true);
    if (auto may = may_ask(Asked::call, name, options_.authority->rights(from)); !may) {
      options_.authority->refused(from, name);
      return answer(from, call, load, may.error());
    }
  }
  std::optional<Offer> offer;
  Error refusal{ErrorCode::not_found, "this node does not offer '" + name + "'"};
  {
    std::lock_guard lock(mutex_);
    const auto found = offers_.find(name);
    if (withdrawn_ && from != options_.self)
      refusal = {ErrorCode::unavailable, "this node is stopping"};
    else if (found != offers_.end())
      offer = found->second;
  }
  if (!offer) return answer(from, call, load, refusal, true);
  // A handler that ends without an answer is as good as one that is away.
  const AnswerOnce<Outcome> once(
      [calls = weak_from_this(), from, call, load, place](Outcome outcome) {
        if (const auto here = calls.lock())
          here->answer(from, call, load, std::move(outcome.result), outcome.not_run, outcome.lost);
      },
      {Error{ErrorCode::unavailable, "what answers '" + name + "' here has ended"}, false, true});
  const Time until = options_.clock->now() + std::chrono::milliseconds(header.timeout_ms);
  CallReply reply([once](Result<SharedBytes> result) { once({std::move(result)}); }, until);
  const CallHandler& handler = offer->handler;
  if (!offer->pooled) return handler(from, std::move(request), std::move(reply));
  const std::size_t bytes = request.size();
  // One that nobody waits for any more when its turn comes is not run.
  const auto queued = options_.threads->run(
      from, bytes,
      [handler, from, request = std::move(request), reply, once, until, clock = options_.clock] {
        if (clock->now() < until) return handler(from, request, reply);
        once({Error{ErrorCode::timeout, "no thread was free for it in time"}, true});
      });
  if (!queued) once({queued.error(), true});
}

void Calls::answer(const NodeId& to, std::uint64_t call, Load load, Result<SharedBytes> result,
                   bool not_run, bool lost) {
  if (to == options_.self)
    return on_reply(to, call,
                    result ? ReplyHeader{} : ReplyHeader{false, result.error(), not_run, lost},
                    result ? *result : SharedBytes{});
  ReplyHeader header;
  SharedBytes payload;
  if (result && !result->empty()) {
    PeerLimits::Place place;
    {
      std::lock_guard lock(mutex_);
      if (closed_) return;
      place = options_.limits->hold(to, load, result->size());
    }
    if (place)  // else it does not read the answers that it has
      payload = {std::make_shared<std::pair<std::shared_ptr<const void>, PeerLimits::Place>>(
                     std::move(result->owner), std::move(place)),
                 result->view};
    else
      header = {.ok = false,
                .error = too_much(load).within("the handler has run, but for its answer"),
                .unsent = true};
  }
  if (!result) header = {false, result.error(), not_run, lost};
  const std::size_t bytes = payload.size();
  const auto sent = options_.link->send_soon(
      to, {transport::Topic::reply, call, encode(header), std::move(payload)});
  if (sent || !header.ok) return;
  header = {.ok = false, .error = sent.error().within("the answer"), .unsent = true};
  if (bytes > transport::kMaxBulkPayloadBytes)
    header.error = {ErrorCode::resource_exhausted,
                    "the answer has " + std::to_string(bytes) +
                        " bytes, which is more than one message holds: ask for less of it, or at "
                        "node " +
                        options_.self.short_text() + " itself"};
  (void)options_.link->send_soon(to, {transport::Topic::reply, call, encode(header)});
}

}  // namespace gpunode::node
