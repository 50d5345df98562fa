// What is still to be told. One rumour a subject, the newest; each is told a bounded number of
// times, least told first, so that news travels before repetition.
#pragma once

#include <map>
#include <vector>

#include "runtime/membership/membership_message.hpp"

namespace gpunode::membership {

class RumorQueue {
 public:
  // Replaces what was queued about this subject and starts its count anew.
  void put(Rumor rumor);
  void drop(const NodeId& subject) { queued_.erase(subject); }
  bool empty() const { return queued_.empty(); }
  std::size_t size() const { return queued_.size(); }
  // Up to `count` rumours whose wire size stays under about `max_bytes`, least told first. Each is
  // counted as told once and dropped after `limit` times.
  std::vector<Rumor> take(std::size_t count, std::size_t max_bytes, int limit);

 private:
  struct Queued {
    Rumor rumor;
    int told = 0;
  };
  std::map<NodeId, Queued> queued_;
};

// About how many bytes this rumour takes on the wire.
std::size_t wire_estimate(const Rumor& rumor);

}  // namespace gpunode::membership
