#include "runtime/transport/detail/outbound.hpp"

#include "runtime/transport/detail/limits.hpp"

namespace gpunode::transport::detail {

std::shared_ptr<Outbound> Outbounds::add(const NodeId& node) {
  std::lock_guard lock(mutex_);
  if (closed_) return nullptr;
  auto& outbound = by_node_[node];
  if (!outbound) outbound = std::make_shared<Outbound>();
  return outbound;
}

bool Outbounds::remove(const NodeId& node) {
  std::lock_guard lock(mutex_);
  return by_node_.erase(node) > 0;
}

std::shared_ptr<Outbound> Outbounds::find(const NodeId& node) const {
  std::lock_guard lock(mutex_);
  auto found = by_node_.find(node);
  return found == by_node_.end() ? nullptr : found->second;
}

void Outbounds::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  by_node_.clear();
}

Result<void> Outbounds::send(Lane lane, const NodeId& to, Message message,
                             const CanQueue& can_queue, const Wake& wake) const {
  std::shared_ptr<Outbound> outbound;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return {ErrorCode::unavailable, "the link is closed"};
    auto found = by_node_.find(to);
    if (found == by_node_.end())
      return {ErrorCode::not_found, "node " + to.short_text() + " is not a peer"};
    outbound = found->second;
  }
  if (auto fits = check_limits(lane, message); !fits) return fits;
  std::lock_guard lock(outbound->mutex);
  if (!outbound->accepting)
    return {ErrorCode::unavailable, "no session with node " + to.short_text()};
  if (!can_queue(*outbound, message))
    return {ErrorCode::resource_exhausted,
            "too much waits for node " + to.short_text() + ": it reads slower than we send"};
  const std::size_t bytes = size_of(message);
  if (!outbound->queue.push(std::move(message))) return {};
  outbound->bytes += bytes;
  if (!outbound->scheduled) {
    outbound->scheduled = true;
    wake(to);
  }
  return {};
}

void open(Outbound& outbound) {
  std::lock_guard lock(outbound.mutex);
  outbound.open = true;
  outbound.accepting = true;
  outbound.scheduled = true;
}

void discard(Outbound& outbound) {
  SendQueue lost;
  {
    std::lock_guard lock(outbound.mutex);
    outbound.open = false;
    outbound.accepting = outbound.idle_accepting;
    outbound.scheduled = false;
    std::swap(lost, outbound.queue);
  }
  while (!lost.empty()) outbound.bytes -= size_of(lost.take());
}

}  // namespace gpunode::transport::detail
