#include "actors/node/calls.hpp"

#include <algorithm>
#include <condition_variable>

#include "actors/node/needed_rights.hpp"

namespace gpunode::node {
namespace {

constexpr auto kRetryEvery = std::chrono::milliseconds(50);
// Where the directory names nodes that refuse: for the news of who does it, no longer.
constexpr auto kStaleOffers = std::chrono::seconds(3);
// Who waits looks after its call so often, while nobody works on it, and while somebody does.
constexpr Duration kLookUnplaced = std::chrono::milliseconds(20);
constexpr Duration kLookPlaced = std::chrono::milliseconds(200);
// Who was lost gets no calls for so long, unless it is heard of before.
constexpr Duration kLostFor = std::chrono::seconds(1);
constexpr Duration kBulkLostFor = std::chrono::milliseconds(100);  // its other lane may go with it
constexpr Duration kShortestLook = std::chrono::milliseconds(1);
// Of 1024 entries that the directory takes of a node; jobs and its health are others.
constexpr std::size_t kMostOffers = 512;

// What stands in the directory beside a name that is offered in reserve; else nothing does.
constexpr std::byte kReserve{1};

thread_local bool on_link = false;

Error gone(const NodeId& peer) {
  return {ErrorCode::peer_lost, "node " + peer.short_text() + " is gone"};
}

Error stopping() {
  return {ErrorCode::cancelled, "this node is stopping"};
}

// Of one that was gone already when it was called, nobody tells that it goes.
bool is_gone(const ClusterSnapshot& cluster, const NodeId& peer) {
  const NodeInfo* node = cluster.find(peer);
  return node && !cluster.alive(peer);
}

Result<void> check_size(const SharedBytes& request) {
  if (request.size() <= transport::kMaxBulkPayloadBytes) return {};
  return {ErrorCode::invalid_argument,
          "the request has " + std::to_string(request.size()) + " bytes, and a call takes " +
              std::to_string(transport::kMaxBulkPayloadBytes) + ": send it in parts"};
}

}  // namespace

std::string service_key(const std::string& name) {
  return "service/" + name;
}

Result<void> check_published_name(const std::string& name) {
  if (name.empty()) return {ErrorCode::invalid_argument, "a published name may not be empty"};
  if (name.size() > kMaxNameBytes)
    return {ErrorCode::invalid_argument, "a published name has at most " +
                                             std::to_string(kMaxNameBytes) + " bytes; this has " +
                                             std::to_string(name.size())};
  for (const std::string own : {"job.", "queue.", "generate.", "node.", "model/", "model."})
    if (name.starts_with(own))
      return {ErrorCode::invalid_argument, "names that begin with '" + own +
                                               "' are gpunode's own: publish '" + name +
                                               "' under another one"};
  return {};
}

Calls::Calls(CallsOptions options) : options_(std::move(options)), choice_(options_.seed) {}

bool Calls::on_link_thread() {
  return on_link;
}

Result<void> Calls::publish(const Publish& order) {
  Offer before;  // ends outside of the lock: what its handler holds may call, or publish
  std::lock_guard lock(mutex_);
  if (closed_ || (withdrawn_ && order.handler)) return stopping();
  if (order.handler) {
    if (order.listed && !offers_.contains(order.name) && offers_.size() >= kMostOffers)
      return {ErrorCode::resource_exhausted, "this node offers " + std::to_string(offers_.size()) +
                                                 " names, and cannot tell others of more: withdraw "
                                                 "some"};
    before = std::exchange(offers_[order.name],
                           {order.handler, order.pooled, order.reserve, order.listed});
  } else if (auto withdrawn = offers_.extract(order.name)) {
    before = std::move(withdrawn.mapped());
  }
  if (!order.listed) return {};
  SetEntry entry{service_key(order.name), {}};
  if (order.handler) entry.value = order.reserve ? Bytes{kReserve} : Bytes{};
  options_.write_entry(std::move(entry));
  return {};
}

// Asking.

std::uint64_t Calls::enter(CallRequest request) {
  std::unique_lock lock(mutex_);
  auto fits = closed_ ? Result<void>(stopping()) : check_size(request.request);
  if (!fits) {
    lock.unlock();
    request.done(fits.error());
    return 0;
  }
  const std::uint64_t call = next_call_++;
  Pending& pending = pending_[call];
  pending.deadline = options_.clock->now() + request.timeout;
  pending.request = std::move(request);
  return call;
}

void Calls::start(CallRequest request) {
  const std::uint64_t call = enter(std::move(request));
  if (call == 0) return;
  dispatch(call);
  {
    std::lock_guard lock(mutex_);
    if (!pending_.contains(call) || std::exchange(timed_, true)) return;
  }
  keep_time_();
}

Result<SharedBytes> Calls::ask(CallRequest request) {
  if (on_link)
    return {ErrorCode::wrong_state,
            "a handler that runs at once may not wait for another call: publish it to run on a "
            "handler thread"};
  struct Answer {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Result<SharedBytes>> result;
  };
  auto answer = std::make_shared<Answer>();
  request.done = [answer](Result<SharedBytes> result) {
    {
      std::lock_guard lock(answer->mutex);
      answer->result = std::move(result);
    }
    answer->changed.notify_one();
  };
  Duration pause = std::clamp<Duration>(request.timeout, kShortestLook, kLookUnplaced);
  const std::uint64_t call = enter(std::move(request));
  if (call != 0) dispatch(call);
  std::unique_lock lock(answer->mutex);
  while (!answer->changed.wait_for(lock, pause, [&] { return answer->result.has_value(); })) {
    lock.unlock();
    tick(call);
    pause = next_look(call);
    lock.lock();
  }
  return std::move(*answer->result);
}

// When who waits for the call looks after it again.
Duration Calls::next_look(std::uint64_t call) const {
  std::lock_guard lock(mutex_);
  const auto it = pending_.find(call);
  if (it == pending_.end()) return kLookPlaced;
  return std::clamp<Duration>(it->second.deadline - options_.clock->now(), kShortestLook,
                              it->second.at ? kLookPlaced : kLookUnplaced);
}

// Live nodes that offer the name and were not tried for this call, the one to be asked first.
std::vector<NodeId> Calls::replicas(const Pending& pending) {
  if (pending.request.to)
    return pending.tried.contains(*pending.request.to) ? std::vector<NodeId>{}
                                                       : std::vector{*pending.request.to};
  std::vector<NodeId> found, reserve;
  const auto cluster = options_.cluster->read();
  const std::string key = service_key(pending.request.name);
  for (const NodeInfo& node : cluster->nodes) {
    // What this node offers it knows before the directory does.
    if (node.id == options_.self || !node.lives() || pending.tried.contains(node.id) ||
        is_lost(node.id))
      continue;
    const DirectoryEntry* entry = cluster->entry(node.id, key);
    if (entry && options_.authority->may(node.id, security::kRightServe))
      (entry->value.empty() ? found : reserve).push_back(node.id);
  }
  if (const auto own = offers_.find(pending.request.name);
      own != offers_.end() && !pending.tried.contains(options_.self))
    (own->second.reserve ? reserve : found).push_back(options_.self);
  for (auto* replicas : {&found, &reserve})
    choice_.arrange(*replicas, pending.request.name, pending.request.affinity,
                    options_.clock->now());
  found.insert(found.end(), reserve.begin(), reserve.end());
  return found;
}

void Calls::leave(Pending& pending, bool answered) {
  if (!pending.at) return;
  if (!pending.request.to) {
    const Time now = options_.clock->now();
    choice_.ended(pending.request.name, *pending.at, now,
                  answered ? std::optional(now - pending.sent) : std::nullopt);
  }
  pending.at.reset();
}

// Gives the call to a replica. With none left it ends, where one was lost or is full, or waits.
void Calls::dispatch(std::uint64_t call) {
  for (;;) {
    std::unique_lock lock(mutex_);
    const auto it = pending_.find(call);
    if (it == pending_.end()) return;
    Pending& pending = it->second;
    if (pending.at) return;  // another thread has given it to one: a handler runs at most once
    const std::vector<NodeId> left = replicas(pending);
    if (left.empty()) {
      // Who was lost, where another may do it, is looked for once more: news of others may be on the way.
      const bool seeks = pending.request.may_repeat && pending.last.code == ErrorCode::peer_lost &&
                         !std::exchange(pending.was_sought, true);
      if (pending.last_is_final && !seeks) {
        Ended ended = finish(it, pending.last);
        lock.unlock();
        return ended.tell();
      }
      pending.tried.clear();
      pending.retry_at = options_.clock->now() + kRetryEvery;
      return;
    }
    const NodeId node = left.front();
    pending.at = node;  // before it is sent: the answer may be here before send_soon() returns
    pending.sent = options_.clock->now();
    pending.lane.reset();
    if (!pending.request.to) choice_.sent(pending.request.name, node);
    const CallRequest& request = pending.request;
    const SharedBytes bytes = request.request;
    const auto time_left = std::chrono::duration_cast<std::chrono::milliseconds>(
        pending.deadline - options_.clock->now());
    const CallHeader header{request.name, static_cast<std::uint32_t>(std::clamp<std::int64_t>(
                                              time_left.count(), 1, UINT32_MAX))};
    lock.unlock();
    if (node == options_.self) return run_handler(node, call, header, bytes);
    const auto sent =
        options_.link->send_soon(node, {transport::Topic::call, call, encode(header), bytes});
    lock.lock();
    const auto again = pending_.find(call);
    if (again == pending_.end() || again->second.at != node) return;
    if (sent) {
      again->second.lane = *sent;
      return;
    }
    leave(again->second, false);
    again->second.last = {ErrorCode::unavailable, sent.error().detail};
    again->second.last_is_final = false;
    again->second.tried.insert(node);
  }
}

Calls::Ended Calls::finish(Table::iterator it, Result<SharedBytes> result) {
  leave(it->second, result.has_value());
  Ended ended{std::move(it->second.request.done), std::move(result)};
  const std::optional<ErrorCode> failed =
      ended.result ? std::nullopt : std::optional(ended.result.error().code);
  telemetry::Counter*& counter = ended_[failed];
  if (!counter)
    counter = &options_.metrics->counter(
        "gpunode_calls_total", "Calls of published names that ended, by outcome",
        {{"outcome", failed ? std::string(to_string(*failed)) : "ok"}});
  counter->add();
  pending_.erase(it);
  return ended;
}

void Calls::on_reply(const NodeId& from, std::uint64_t call, const ReplyHeader& reply,
                     SharedBytes payload) {
  std::unique_lock lock(mutex_);
  const auto it = pending_.find(call);
  if (it == pending_.end() || it->second.at != from) return;
  Pending& pending = it->second;
  // What a handler says is the answer, an error too, and so is a named node's refusal.
  const bool is_full = !reply.ok && reply.error.code == ErrorCode::resource_exhausted;
  const bool is_refused = is_full || (!reply.ok && reply.error.code == ErrorCode::unavailable);
  const bool elsewhere = is_refused && !reply.unsent && pending.request.elsewhere_if_refused;
  const bool again = reply.not_run || (reply.lost && pending.request.may_repeat) || elsewhere;
  if (reply.ok || pending.request.to || !again) {
    Ended ended = finish(
        it, reply.ok ? Result<SharedBytes>(std::move(payload)) : Result<SharedBytes>(reply.error));
    lock.unlock();
    return ended.tell();
  }
  leave(pending, false);
  pending.tried.insert(from);
  pending.last = reply.error;
  pending.last_is_final = is_full || elsewhere || reply.error.code == ErrorCode::peer_lost;
  if (!pending.refused_at) pending.refused_at = options_.clock->now();
  lock.unlock();
  dispatch(call);
}

void Calls::on_message(const NodeId& from, const transport::Message& message) {
  const auto header = decode_call(message.body);
  if (!header) return options_.limits->sent_malformed(from);
  on_link = true;
  if (const auto* call = std::get_if<CallHeader>(&*header)) {
    if (message.topic == transport::Topic::call)
      run_handler(from, message.stream, *call, message.payload);
  } else if (message.topic == transport::Topic::reply) {
    on_reply(from, message.stream, std::get<ReplyHeader>(*header), message.payload);
  }
  on_link = false;
}

// What becomes of them.

// Of a call whose replica is gone: its end, or it is given to another one.
void Calls::lose(Table::iterator it, std::vector<Ended>& ended, std::vector<std::uint64_t>& again) {
  Pending& pending = it->second;
  const NodeId peer = *pending.at;
  if (pending.request.to || !pending.request.may_repeat) {
    ended.push_back(finish(it, gone(peer)));
    return;
  }
  leave(pending, false);
  pending.tried.insert(peer);
  pending.last = gone(peer);
  pending.last_is_final = true;
  pending.refused_at.reset();
  again.push_back(it->first);
}

// Without its bulk lane it is still there: only what was asked of it on that lane is lost.
void Calls::on_peer_gone(const NodeId& peer, bool bulk_alone) {
  std::vector<Ended> ended;
  std::vector<std::uint64_t> again;
  {
    std::lock_guard lock(mutex_);
    Time& until = lost_[peer];
    until = std::max(until, options_.clock->now() + (bulk_alone ? kBulkLostFor : kLostFor));
    for (auto next = pending_.begin(); next != pending_.end();) {
      const auto it = next++;
      if (it->second.at != peer) continue;
      if (bulk_alone && it->second.lane == transport::Lane::control) continue;
      lose(it, ended, again);
    }
  }
  for (Ended& each : ended) each.tell();
  for (const std::uint64_t call : again) dispatch(call);
}

void Calls::on_peer_here(const NodeId& peer) {
  std::lock_guard lock(mutex_);
  lost_.erase(peer);
}

// What others are told of it comes a moment later: a call that is made meanwhile would be lost, too.
bool Calls::is_lost(const NodeId& peer) {
  const auto found = lost_.find(peer);
  if (found == lost_.end()) return false;
  if (options_.clock->now() < found->second) return true;
  lost_.erase(found);
  return false;
}

// Ends it if it is over; `again` gets it if it is to be given to a replica.
void Calls::look_after(Table::iterator it, const ClusterSnapshot& cluster,
                       std::vector<Ended>& ended, std::vector<std::uint64_t>& again) {
  const Time now = options_.clock->now();
  const Pending& pending = it->second;
  const std::string what = "'" + pending.request.name + "'";
  const Error last = pending.last;
  if (!pending.at && pending.refused_at && now >= *pending.refused_at + kStaleOffers) {
    if (last.code != ErrorCode::not_found) return ended.push_back(finish(it, last));
    return ended.push_back(
        finish(it, Error{ErrorCode::not_found, "no live node offers " + what + " any more"}));
  }
  const Duration looked_for = pending.request.placed_within;
  const bool is_placeless = !pending.at && looked_for > Duration::zero() &&
                            now >= pending.deadline - pending.request.timeout + looked_for;
  if (now < pending.deadline && !is_placeless) {
    if (const auto& to = pending.request.to; to && is_gone(cluster, *to))
      return ended.push_back(finish(it, gone(*to)));
    if (pending.at && is_gone(cluster, *pending.at)) return lose(it, ended, again);
    if (!pending.at && now >= pending.retry_at) again.push_back(it->first);
    return;
  }
  ended.push_back(finish(
      it, pending.at ? Error{ErrorCode::timeout, "no answer to " + what + " in time"}
                     : Error{ErrorCode::unavailable,
                             "no live node offers " + what +
                                 (last.detail.empty() ? "" : " (last: " + last.detail + ")")}));
}

// Of one call, or of all.
void Calls::tick(std::optional<std::uint64_t> only) {
  std::vector<Ended> ended;
  std::vector<std::uint64_t> again;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    const auto cluster = options_.cluster->read();
    auto next = only ? pending_.find(*only) : pending_.begin();
    while (next != pending_.end()) {
      look_after(next++, *cluster, ended, again);
      if (only) break;
    }
  }
  for (Ended& each : ended) each.tell();
  for (const std::uint64_t call : again) dispatch(call);
}

bool Calls::on_tick() {
  tick({});
  std::lock_guard lock(mutex_);
  return timed_ = !pending_.empty();
}

void Calls::withdraw() {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  withdrawn_ = true;
  // What was written a moment ago is not read yet, and an earlier life's is no offer.
  std::set<std::string> keys;
  for (const auto& [name, offer] : offers_)
    if (offer.listed) keys.insert(service_key(name));
  const auto cluster = options_.cluster->read();
  for (const DirectoryEntry& entry : cluster->entries)
    if (entry.owner == options_.self && entry.key.starts_with(service_key("")))
      keys.insert(entry.key);
  for (const std::string& key : keys) options_.write_entry({key, {}});
}

void Calls::close() {
  std::vector<Ended> ended;
  std::map<std::string, Offer> offers;  // end outside of the lock: they may be anything
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    while (!pending_.empty()) ended.push_back(finish(pending_.begin(), stopping()));
    std::swap(offers, offers_);
  }
  for (Ended& each : ended) each.tell();
}

}  // namespace gpunode::node
