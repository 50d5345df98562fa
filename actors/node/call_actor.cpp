#include "actors/node/call_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "actors/answer_once.hpp"
#include "actors/mailbox.hpp"
#include "actors/node/call_codec.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::node {
namespace {

struct LocalReply {  // an answer of a local handler, from any thread
  NodeId to;
  std::uint64_t call = 0;
  Result<SharedBytes> result{SharedBytes{}};
};

constexpr std::size_t kControlPayloadBytes = 256 * 1024;  // larger ones take the bulk lane
constexpr auto kTick = std::chrono::milliseconds(20);
constexpr auto kRetryEvery = std::chrono::milliseconds(100);
// Where the directory names nodes that do not offer the name: for the news of who does, no longer.
constexpr auto kStaleOffers = std::chrono::seconds(3);

struct Pending {
  CallRequest request;
  std::optional<NodeId> at;  // who is working on it
  std::set<NodeId> tried;
  Time deadline{};
  Time retry_at{};                 // when nobody is working on it
  std::optional<Time> refused_at;  // first by one that does not offer it, and by nothing else since
  Error last{ErrorCode::unavailable, ""};
};

struct State {
  static inline const char* name = "calls";
  CallActorOptions options;
  std::map<std::string, CallHandler> handlers;
  std::map<std::uint64_t, Pending> pending;
  std::uint64_t next_call = 1;
  Rng rng{0};
};
using Self = caf::stateful_actor<State>;

Time now(Self* self) {
  return self->state.options.clock->now();
}

transport::Lane lane_of(const SharedBytes& payload) {
  return payload.size() > kControlPayloadBytes ? transport::Lane::bulk : transport::Lane::control;
}

// Somebody waits for it: on bulk it goes before the chunks of a step.
Result<void> send(Self* self, const NodeId& to, transport::Topic topic, std::uint64_t call,
                  Bytes header, SharedBytes payload) {
  const transport::Lane lane = lane_of(payload);
  transport::Message message{topic, call, std::move(header), std::move(payload)};
  if (lane == transport::Lane::bulk) message.urgency = transport::Urgency::high;
  return self->state.options.link->send(to, lane, std::move(message));
}

// Answers a caller: a remote one by a message, our own directly.
void answer(Self* self, const NodeId& to, std::uint64_t call, Result<SharedBytes> result);

void finish(Self* self, std::map<std::uint64_t, Pending>::iterator it, Result<SharedBytes> result) {
  auto done = std::move(it->second.request.done);
  std::string outcome = result ? "ok" : std::string(to_string(result.error().code));
  self->state.options.metrics
      ->counter("gpunode_calls_total", "Calls of published names that ended, by outcome",
                {{"outcome", outcome}})
      .add();
  self->state.pending.erase(it);
  done(std::move(result));
}

void run_handler(Self* self, const NodeId& from, std::uint64_t call, const std::string& name,
                 SharedBytes request) {
  auto handler = self->state.handlers.find(name);
  if (handler == self->state.handlers.end())
    return answer(self, from, call,
                  Error{ErrorCode::not_found, "this node does not offer '" + name + "'"});
  // A handler that ends without an answer is as good as one that is away.
  AnswerOnce<Result<SharedBytes>> reply(
      [me = caf::actor(self), from, call](Result<SharedBytes> result) {
        caf::anon_send(me, LocalReply{from, call, std::move(result)});
      },
      Error{ErrorCode::unavailable, "what answers '" + name + "' here has ended"});
  handler->second(from, std::move(request), std::move(reply));
}

// Live nodes that offer the name and were not tried for this call, in random order.
std::vector<NodeId> replicas(Self* self, const Pending& pending) {
  State& state = self->state;
  auto cluster = state.options.cluster->read();
  std::vector<NodeId> found;
  if (pending.request.to) {
    found.push_back(*pending.request.to);
  } else {
    std::string key = service_key(pending.request.name);
    for (const DirectoryEntry& entry : cluster->entries)
      if (entry.key == key && cluster->alive(entry.owner)) found.push_back(entry.owner);
    if (state.handlers.contains(pending.request.name) &&
        std::find(found.begin(), found.end(), state.options.self) == found.end())
      found.push_back(state.options.self);
  }
  std::erase_if(found, [&](const NodeId& node) { return pending.tried.contains(node); });
  for (std::size_t i = found.size(); i > 1; --i) std::swap(found[i - 1], found[state.rng.below(i)]);
  return found;
}

// Gives the call to a replica; with none left it waits for one until the deadline.
void dispatch(Self* self, std::uint64_t call) {
  auto it = self->state.pending.find(call);
  if (it == self->state.pending.end()) return;
  Pending& pending = it->second;
  pending.at.reset();
  for (const NodeId& node : replicas(self, pending)) {
    if (node == self->state.options.self) {
      pending.at = node;
      return run_handler(self, node, call, pending.request.name, pending.request.request);
    }
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(pending.deadline - now(self));
    CallHeader header{pending.request.name,
                      static_cast<std::uint32_t>(std::max<std::int64_t>(1, left.count()))};
    auto sent =
        send(self, node, transport::Topic::call, call, encode(header), pending.request.request);
    if (sent) {
      pending.at = node;
      return;
    }
    pending.last = sent.error();
  }
  pending.tried.clear();
  pending.retry_at = now(self) + kRetryEvery;
}

void answer(Self* self, const NodeId& to, std::uint64_t call, Result<SharedBytes> result) {
  State& state = self->state;
  if (to == state.options.self) {
    auto it = state.pending.find(call);
    if (it != state.pending.end()) finish(self, it, std::move(result));
    return;
  }
  ReplyHeader header;
  SharedBytes payload;
  if (result)
    payload = *result;
  else
    header = {false, result.error()};
  const std::size_t bytes = payload.size();
  auto sent = send(self, to, transport::Topic::reply, call, encode(header), std::move(payload));
  if (sent || !header.ok) return;
  header = {false, sent.error().within("the answer")};
  if (bytes > transport::kMaxBulkPayloadBytes)
    header.error = {ErrorCode::resource_exhausted,
                    "the answer has " + std::to_string(bytes) +
                        " bytes, which is more than one message holds: ask for less of it, or at "
                        "node " +
                        state.options.self.short_text() + " itself"};
  (void)send(self, to, transport::Topic::reply, call, encode(header), {});
}

void on_reply(Self* self, const NetMessage& net, const ReplyHeader& reply) {
  auto it = self->state.pending.find(net.message->stream);
  if (it == self->state.pending.end() || it->second.at != net.from) return;
  if (reply.ok) return finish(self, it, net.message->payload);
  Pending& pending = it->second;
  // Another replica may still do it; a named node's refusal is the answer.
  bool elsewhere = !pending.request.to && (reply.error.code == ErrorCode::not_found ||
                                           reply.error.code == ErrorCode::unavailable);
  if (!elsewhere) return finish(self, it, reply.error);
  pending.tried.insert(net.from);
  pending.last = reply.error;
  if (reply.error.code != ErrorCode::not_found)
    pending.refused_at.reset();
  else if (!pending.refused_at)
    pending.refused_at = now(self);
  dispatch(self, it->first);
}

void on_net(Self* self, const NetMessage& net) {
  auto message = decode_call(net.message->body);
  if (!message) return;
  if (const auto* call = std::get_if<CallHeader>(&*message)) {
    if (net.message->topic == transport::Topic::call)
      run_handler(self, net.from, net.message->stream, call->name, net.message->payload);
  } else if (net.message->topic == transport::Topic::reply) {
    on_reply(self, net, std::get<ReplyHeader>(*message));
  }
}

// `visit` may end the call that it is given.
template <class Visit>
void for_each_pending(Self* self, Visit visit) {
  auto& pending = self->state.pending;
  for (auto it = pending.begin(); it != pending.end();) visit(it++);
}

Error gone(const NodeId& peer) {
  return {ErrorCode::peer_lost, "node " + peer.short_text() + " is gone"};
}

// Calls that the peer was working on go to another replica. Without its bulk lane it is still
// there: only what was asked of it on that lane is lost.
void on_peer_gone(Self* self, const NodeId& peer, bool bulk_alone = false) {
  for_each_pending(self, [&](auto it) {
    Pending& pending = it->second;
    const bool on_bulk = lane_of(pending.request.request) == transport::Lane::bulk;
    if (pending.at != peer || (bulk_alone && !on_bulk)) return;
    if (pending.request.to) return finish(self, it, gone(peer));
    pending.tried.insert(peer);
    pending.last = gone(peer);
    pending.refused_at.reset();
    dispatch(self, it->first);
  });
}

// Of one that was gone already when it was called, nobody tells that it goes.
bool is_gone(const ClusterSnapshot& cluster, const NodeId& peer) {
  const NodeInfo* node = cluster.find(peer);
  return node && !cluster.alive(peer);
}

void on_tick(Self* self) {
  self->delayed_send(self, kTick, Tick{});
  Time t = now(self);
  const auto cluster = self->state.options.cluster->read();
  for_each_pending(self, [&](auto it) {
    const Pending& pending = it->second;
    if (!pending.at && pending.refused_at && t >= *pending.refused_at + kStaleOffers)
      return finish(self, it,
                    Error{ErrorCode::not_found,
                          "no live node offers '" + pending.request.name + "' any more"});
    if (t < pending.deadline) {
      if (const auto& to = pending.request.to; to && is_gone(*cluster, *to))
        return finish(self, it, gone(*to));
      if (!pending.at && t >= pending.retry_at) dispatch(self, it->first);
      return;
    }
    const std::string what = "'" + pending.request.name + "'", last = pending.last.detail;
    Error late{ErrorCode::timeout, "no answer to " + what + " in time"};
    if (!pending.at)
      late = {ErrorCode::unavailable,
              "no live node offers " + what + (last.empty() ? "" : " (last: " + last + ")")};
    finish(self, it, late);
  });
}

void on_call(Self* self, const CallRequest& request) {
  std::uint64_t call = self->state.next_call++;
  self->state.pending[call] =
      Pending{request, {}, {}, now(self) + request.timeout, {}, {}, {ErrorCode::unavailable, ""}};
  dispatch(self, call);
}

void on_publish(Self* self, const Publish& publish) {
  State& state = self->state;
  if (publish.handler)
    state.handlers[publish.name] = publish.handler;
  else
    state.handlers.erase(publish.name);
  if (!publish.listed) return;
  SetEntry entry{service_key(publish.name), {}};
  if (publish.handler) entry.value = Bytes{};
  self->send(state.options.directory_writer, std::move(entry));
}

caf::behavior behaviour(Self* self, std::shared_ptr<CallActorOptions> options) {
  self->state.options = std::move(*options);
  self->state.rng = Rng(self->state.options.seed);
  expect_known_messages(self);
  self->delayed_send(self, kTick, Tick{});
  return {
      [self](const NetMessage& net) { on_net(self, net); },
      [self](const CallRequest& request) { on_call(self, request); },
      [self](const Publish& publish) { on_publish(self, publish); },
      [self](const LocalReply& reply) { answer(self, reply.to, reply.call, reply.result); },
      [self](const PeerChanged& peer) {
        if (peer.health == PeerHealth::dead || peer.health == PeerHealth::left)
          on_peer_gone(self, peer.peer);
      },
      [self](const LinkChanged& link) {
        if (link.state == LinkState::reset)
          on_peer_gone(self, link.peer, link.lane == transport::Lane::bulk);
      },
      [self](const Tick&) { on_tick(self); },
      [self](const Shutdown&) {
        while (!self->state.pending.empty())
          finish(self, self->state.pending.begin(),
                 Error{ErrorCode::cancelled, "this node is stopping"});
        self->quit();
      },
  };
}

}  // namespace

std::string service_key(const std::string& name) {
  return "service/" + name;
}

caf::actor spawn_calls(caf::actor_system& system, CallActorOptions options) {
  return system.spawn(behaviour, std::make_shared<CallActorOptions>(std::move(options)));
}

}  // namespace gpunode::node
