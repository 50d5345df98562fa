#include "runtime/membership/rumor_queue.hpp"

#include <algorithm>

namespace gpunode::membership {

std::size_t wire_estimate(const Rumor& rumor) {
  std::size_t bytes = 96 + 32 * (rumor.observers.size() + rumor.refused_by.size());
  if (!rumor.record) return bytes;
  const MemberRecord& record = *rumor.record;
  bytes += 256 + record.name.size() + record.signature.size();
  for (const auto* list :
       {&record.control_endpoints, &record.bulk_endpoints, &record.join_endpoints})
    for (const std::string& each : *list) bytes += each.size() + 16;
  for (const auto& [key, value] : record.labels) bytes += key.size() + value.size() + 40;
  return bytes;
}

void RumorQueue::put(Rumor rumor) {
  const NodeId subject = rumor.subject;
  queued_[subject] = Queued{std::move(rumor), 0};
}

std::vector<Rumor> RumorQueue::take(std::size_t count, std::size_t max_bytes, int limit) {
  std::vector<Queued*> order;
  order.reserve(queued_.size());
  for (auto& [subject, queued] : queued_) order.push_back(&queued);
  std::stable_sort(order.begin(), order.end(),
                   [](const Queued* a, const Queued* b) { return a->told < b->told; });
  std::vector<Rumor> taken;
  std::size_t bytes = 0;
  for (Queued* queued : order) {
    if (taken.size() >= count) break;
    const std::size_t size = wire_estimate(queued->rumor);
    if (!taken.empty() && bytes + size > max_bytes) continue;
    bytes += size;
    taken.push_back(queued->rumor);
    ++queued->told;
  }
  std::erase_if(queued_, [limit](const auto& each) { return each.second.told >= limit; });
  return taken;
}

}  // namespace gpunode::membership
