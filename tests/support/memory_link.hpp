// MemoryLink: the twin of MeshLink inside one process, over a MemoryNetwork that tests can cut,
// stop one way, slow down, make lossy or reset. Same contract, same tests.
//
// A network delivers on one thread of its own, or, in manual mode, only inside deliver() on the
// caller's thread, which makes a test with many nodes deterministic. Costs one move a message.
#pragma once

#include <functional>
#include <memory>

#include "runtime/base/clock.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::transport {

namespace detail {
struct MemoryHub;
}

class MemoryNetwork {
 public:
  enum class Delivery { own_thread, manual };
  // What a test does to one message on its way. Asked at the time of sending.
  enum class Fate { deliver, lose };
  using FateHook =
      std::function<Fate(const NodeId& from, const NodeId& to, Lane lane, const Message& message)>;

  explicit MemoryNetwork(Delivery delivery = Delivery::own_thread);
  ~MemoryNetwork();
  MemoryNetwork(const MemoryNetwork&) = delete;
  MemoryNetwork& operator=(const MemoryNetwork&) = delete;

  // A link of `node` on this network; it must be closed before the network goes. Opening a node a
  // second time after its link was closed is a restart: peers see reset, then up.
  std::unique_ptr<Link> open(const NodeId& node, Boot boot, LinkEvents events);

  // Both ends see reset; nothing passes until mend().
  void cut(const NodeId& a, const NodeId& b);
  // Messages from `from` to `to` vanish silently, as behind a broken switch; nobody is told.
  void cut_one_way(const NodeId& from, const NodeId& to);
  // Takes back cut and cut_one_way in both directions; after a cut both ends see up again.
  void mend(const NodeId& a, const NodeId& b);
  // The session breaks and opens again at once: both see reset, then up; messages under way are
  // lost.
  void reset(const NodeId& a, const NodeId& b);
  // A lost message of a stream is what a real link never shows: on the lanes of a link it appears
  // as a reset. The hook therefore loses only topics membership and directory silently; losing any
  // other one resets the pair. Null takes the hook away.
  void set_fate(FateHook hook);
  // Holds every message of that direction back by `delay` of deliver()'s `now` (manual mode only).
  void set_delay(const NodeId& from, const NodeId& to, Duration delay);

  // Manual mode: delivers what is due, including what the deliveries send, up to `limit` events;
  // returns how many were delivered.
  std::size_t deliver(Time now = {}, std::size_t limit = 1'000'000);
  // Events waiting, due or not.
  std::size_t pending() const;

 private:
  std::shared_ptr<detail::MemoryHub> hub_;
};

}  // namespace gpunode::transport
