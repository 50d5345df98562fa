#include "tests/support/memory_hub.hpp"

#include <algorithm>

namespace gpunode::transport::detail {

MemoryHub::MemoryHub(bool own_thread) {
  if (own_thread) thread = std::thread([this] { run(); });
}

MemoryHub::~MemoryHub() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  if (thread.joinable()) thread.join();
}

MemoryPair& MemoryHub::pair(const NodeId& a, const NodeId& b) {
  return pairs[{std::min(a, b), std::max(a, b)}];
}

std::shared_ptr<MemoryEndpoint> MemoryHub::find(const NodeId& node) {
  auto found = endpoints.find(node);
  return found == endpoints.end() ? nullptr : found->second;
}

void MemoryHub::push(MemoryEvent event, Time due) {
  queue.emplace(std::pair{due, next_number++}, std::move(event));
  changed.notify_all();
}

void MemoryHub::push_state(const NodeId& to, const NodeId& peer, Lane lane, LinkState state) {
  auto endpoint = find(to);
  if (!endpoint) return;
  MemoryEvent event;
  event.to = endpoint;
  event.from = peer;
  event.lane = lane;
  event.is_state = true;
  event.state = state;
  push(std::move(event), now);
}

void MemoryHub::try_open(const NodeId& a, const NodeId& b) {
  MemoryPair& link = pair(a, b);
  if (link.cut || link.up[0]) return;
  auto left = find(a), right = find(b);
  if (left && !right && left->peers.contains(b)) {
    push_state(a, b, Lane::control, LinkState::refused);
  }
  if (!left || !right || !left->peers.contains(b) || !right->peers.contains(a)) return;
  link.up[0] = true;
  ++link.session[0];
  push_state(a, b, Lane::control, LinkState::up);
  push_state(b, a, Lane::control, LinkState::up);
}

void MemoryHub::open_bulk(const NodeId& a, const NodeId& b) {
  MemoryPair& link = pair(a, b);
  if (link.up[1]) return;
  link.up[1] = true;
  ++link.session[1];
  push_state(a, b, Lane::bulk, LinkState::up);
  push_state(b, a, Lane::bulk, LinkState::up);
}

void MemoryHub::break_pair(const NodeId& a, const NodeId& b, const NodeId* silent) {
  MemoryPair& link = pair(a, b);
  for (Lane lane : {Lane::control, Lane::bulk}) {
    std::size_t index = lane_index(lane);
    if (!link.up[index]) continue;
    link.up[index] = false;
    ++link.session[index];
    for (const auto& [to, peer] : {std::pair{a, b}, std::pair{b, a}}) {
      if (!silent || *silent != to) push_state(to, peer, lane, LinkState::reset);
    }
  }
  link.last_due.clear();
}

void MemoryHub::leave(const std::shared_ptr<MemoryEndpoint>& endpoint) {
  endpoint->open = false;
  auto found = endpoints.find(endpoint->node);
  if (found != endpoints.end() && found->second == endpoint) endpoints.erase(found);
  for (const auto& [id, other] : endpoints) {
    if (!other->peers.contains(endpoint->node)) continue;
    break_pair(endpoint->node, id, &endpoint->node);
    if (!pair(endpoint->node, id).cut) {
      push_state(id, endpoint->node, Lane::control, LinkState::refused);
    }
  }
}

bool MemoryHub::step(std::unique_lock<std::mutex>& lock, Time until) {
  if (queue.empty() || queue.begin()->first.first > until) return false;
  MemoryEvent event = std::move(queue.extract(queue.begin()).mapped());
  auto endpoint = event.to.lock();
  if (!endpoint || !endpoint->open) return true;
  std::size_t lane = lane_index(event.lane);
  if (!event.is_state) {
    bool live = endpoint->peers.contains(event.from) &&
                pair(event.from, endpoint->node).session[lane] == event.session;
    LinkCounters& counters = endpoint->counters[lane];
    if (!live) {
      ++counters.frames_dropped;
      return true;
    }
    ++counters.frames_received;
    counters.bytes_received += event.message.body.size() + event.message.payload.size();
  } else if (!endpoint->peers.contains(event.from)) {
    return true;
  }
  delivering_to = endpoint.get();
  delivering_thread = std::this_thread::get_id();
  lock.unlock();
  if (event.is_state) {
    if (endpoint->events.on_state) endpoint->events.on_state(event.from, event.lane, event.state);
  } else if (endpoint->events.on_message) {
    endpoint->events.on_message(event.from, event.lane, std::move(event.message));
  }
  event.message = {};
  lock.lock();
  delivering_to = nullptr;
  changed.notify_all();
  return true;
}

void MemoryHub::run() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    if (!step(lock, now)) {
      changed.wait(lock, [this] {
        return stopping || (!queue.empty() && queue.begin()->first.first <= now);
      });
    }
  }
}

}  // namespace gpunode::transport::detail
