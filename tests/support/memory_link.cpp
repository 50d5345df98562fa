#include "tests/support/memory_link.hpp"

#include "runtime/transport/detail/limits.hpp"
#include "tests/support/memory_hub.hpp"

namespace gpunode::transport {

namespace {

using detail::lane_index;

class MemoryLink final : public Link {
 public:
  MemoryLink(std::shared_ptr<detail::MemoryHub> hub, std::shared_ptr<detail::MemoryEndpoint> self)
      : hub_(std::move(hub)), self_(std::move(self)) {}
  ~MemoryLink() override { close(); }

  void set_peer(PeerAddress address) override {
    std::lock_guard lock(hub_->mutex);
    if (!self_->open || address.node == self_->node) return;
    self_->peers.insert(address.node);
    hub_->try_open(self_->node, address.node);
  }

  void drop_peer(const NodeId& node) override {
    std::lock_guard lock(hub_->mutex);
    if (self_->peers.erase(node) > 0) hub_->break_pair(self_->node, node, &self_->node);
  }

  Result<void> send(const NodeId& to, Lane lane, Message message) override {
    std::lock_guard lock(hub_->mutex);
    if (!self_->open) return {ErrorCode::unavailable, "the link is closed"};
    if (!self_->peers.contains(to)) {
      return {ErrorCode::not_found, "node " + to.short_text() + " is not a peer"};
    }
    if (auto fits = detail::check_limits(lane, message); !fits) return fits;
    detail::MemoryPair& pair = hub_->pair(self_->node, to);
    if (!pair.up[0]) {
      return {ErrorCode::unavailable, "no session with node " + to.short_text()};
    }
    if (lane == Lane::bulk) hub_->open_bulk(self_->node, to);
    LinkCounters& counters = self_->counters[lane_index(lane)];
    ++counters.frames_sent;
    counters.bytes_sent += message.body.size() + message.payload.size();
    if (pair.mute[self_->node]) return {};
    if (hub_->fate && hub_->fate(self_->node, to, lane, message) == MemoryNetwork::Fate::lose) {
      if (message.topic != Topic::membership && message.topic != Topic::directory) {
        hub_->break_pair(self_->node, to);
        hub_->try_open(self_->node, to);
      }
      return {};
    }
    Time due = hub_->now + pair.delay[self_->node];
    Time& last = pair.last_due[self_->node];
    due = last = std::max(due, last);
    detail::MemoryEvent event;
    event.to = hub_->find(to);
    event.from = self_->node;
    event.lane = lane;
    event.message = std::move(message);
    event.session = pair.session[lane_index(lane)];
    hub_->push(std::move(event), due);
    return {};
  }

  Result<Lane> send_soon(const NodeId& to, Message message) override {
    const Lane lane = detail::lane_of_length(message);
    if (auto sent = send(to, lane, std::move(message)); !sent) return sent.error();
    return lane;
  }

  LinkCounters counters(Lane lane) const override {
    std::lock_guard lock(hub_->mutex);
    return self_->counters[lane_index(lane)];
  }

  void close() override {
    std::unique_lock lock(hub_->mutex);
    if (!self_->open) return;
    hub_->leave(self_);
    hub_->changed.wait(lock, [this] {
      return hub_->delivering_to != self_.get() ||
             hub_->delivering_thread == std::this_thread::get_id();
    });
  }

 private:
  std::shared_ptr<detail::MemoryHub> hub_;
  std::shared_ptr<detail::MemoryEndpoint> self_;
};

}  // namespace

MemoryNetwork::MemoryNetwork(Delivery delivery)
    : hub_(std::make_shared<detail::MemoryHub>(delivery == Delivery::own_thread)) {}

MemoryNetwork::~MemoryNetwork() = default;

std::unique_ptr<Link> MemoryNetwork::open(const NodeId& node, Boot, LinkEvents events) {
  auto endpoint = std::make_shared<detail::MemoryEndpoint>();
  endpoint->node = node;
  endpoint->events = std::move(events);
  std::lock_guard lock(hub_->mutex);
  GPUNODE_CHECK(!hub_->endpoints.contains(node), "a node opened twice: " + node.short_text());
  hub_->endpoints[node] = endpoint;
  return std::make_unique<MemoryLink>(hub_, endpoint);
}

void MemoryNetwork::cut(const NodeId& a, const NodeId& b) {
  std::lock_guard lock(hub_->mutex);
  hub_->pair(a, b).cut = true;
  hub_->break_pair(a, b);
}

void MemoryNetwork::cut_one_way(const NodeId& from, const NodeId& to) {
  std::lock_guard lock(hub_->mutex);
  hub_->pair(from, to).mute[from] = true;
}

void MemoryNetwork::mend(const NodeId& a, const NodeId& b) {
  std::lock_guard lock(hub_->mutex);
  detail::MemoryPair& pair = hub_->pair(a, b);
  pair.cut = false;
  pair.mute.clear();
  hub_->try_open(a, b);
}

void MemoryNetwork::reset(const NodeId& a, const NodeId& b) {
  std::lock_guard lock(hub_->mutex);
  hub_->break_pair(a, b);
  hub_->try_open(a, b);
}

void MemoryNetwork::set_fate(FateHook hook) {
  std::lock_guard lock(hub_->mutex);
  hub_->fate = std::move(hook);
}

void MemoryNetwork::set_delay(const NodeId& from, const NodeId& to, Duration delay) {
  std::lock_guard lock(hub_->mutex);
  hub_->pair(from, to).delay[from] = delay;
}

std::size_t MemoryNetwork::deliver(Time now, std::size_t limit) {
  std::unique_lock lock(hub_->mutex);
  hub_->now = std::max(hub_->now, now);
  std::size_t delivered = 0;
  while (delivered < limit && hub_->step(lock, hub_->now)) ++delivered;
  return delivered;
}

std::size_t MemoryNetwork::pending() const {
  std::lock_guard lock(hub_->mutex);
  return hub_->queue.size();
}

}  // namespace gpunode::transport
