// What waits for one peer on one lane, and the way of a message from any thread into it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "runtime/base/result.hpp"
#include "runtime/transport/detail/send_queue.hpp"

namespace gpunode::transport::detail {

inline std::size_t size_of(const Message& message) {
  return message.body.size() + message.payload.size();
}

// Shared by senders and the lane's thread.
struct Outbound {
  std::mutex mutex;
  SendQueue queue;
  bool accepting = false;             // send may queue: open or idle_accepting
  bool open = false;                  // there is a session
  bool idle_accepting = false;        // also without a session: bulk opens one then
  bool scheduled = false;             // a flush is posted
  std::atomic<std::size_t> bytes{0};  // queued, and on bulk also half sent
};

// The peers of one lane to which can be sent. Any thread.
class Outbounds {
 public:
  using CanQueue = std::function<bool(const Outbound&, const Message&)>;
  using Wake = std::function<void(const NodeId&)>;

  // Null after close().
  std::shared_ptr<Outbound> add(const NodeId& node);
  bool remove(const NodeId& node);
  std::shared_ptr<Outbound> find(const NodeId& node) const;
  void close();

  // Queues within the lane's limits, and wakes the lane's thread where it does not look anyway.
  // What equals one with an order that still waits goes out as that one. Fails as Link::send.
  Result<void> send(Lane lane, const NodeId& to, Message message, const CanQueue& can_queue,
                    const Wake& wake) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<NodeId, std::shared_ptr<Outbound>> by_node_;
  bool closed_ = false;
};

// There is a session: what waits and what comes may be sent. Its flush counts as posted.
void open(Outbound& outbound);
// Throws away what waits, and lets nothing more wait for a session that is gone.
void discard(Outbound& outbound);

}  // namespace gpunode::transport::detail
