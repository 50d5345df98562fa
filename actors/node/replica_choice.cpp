#include "actors/node/replica_choice.hpp"

#include <algorithm>
#include <cmath>

namespace gpunode::node {
namespace {

constexpr double kForgottenIn = 30;  // seconds, by a factor of e
constexpr double kUnknown = 1e-3;    // seconds of one that has not answered yet
constexpr double kNewest = 0.3;      // weight of the newest answer
constexpr double kMuchSooner = 2;    // than the replica of an affinity, and by a moment at least
constexpr double kMoment = 5e-3;     // seconds
constexpr std::size_t kMost = 4096;  // records; names come and go

double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::uint64_t place_of(std::uint64_t affinity, const NodeId& node) {
  std::uint64_t place = affinity;
  for (const auto byte : node.value) place = mix(place, static_cast<std::uint64_t>(byte));
  return place;
}

}  // namespace

double ReplicaChoice::expected(const std::string& name, const NodeId& replica, Time now) const {
  const auto found = records_.find({name, replica});
  if (found == records_.end()) return kUnknown;
  const Record& record = found->second;
  const double remembered = std::exp(-seconds_of(now - record.at) / kForgottenIn);
  const double seconds = record.seconds == 0 ? kUnknown : record.seconds * remembered;
  return seconds * static_cast<double>(record.under_way + 1);
}

void ReplicaChoice::arrange(std::vector<NodeId>& replicas, const std::string& name,
                            std::optional<std::uint64_t> affinity, Time now) {
  for (std::size_t i = replicas.size(); i > 1; --i)
    std::swap(replicas[i - 1], replicas[rng_.below(i)]);
  if (replicas.size() < 2) return;
  if (affinity) {
    const auto own = std::ranges::max_element(
        replicas, {}, [&](const NodeId& node) { return place_of(*affinity, node); });
    std::iter_swap(own, replicas.begin());
  }
  const double first = expected(name, replicas[0], now), other = expected(name, replicas[1], now);
  const bool elsewhere = affinity ? kMuchSooner * other + kMoment < first : other < first;
  if (elsewhere) std::swap(replicas[0], replicas[1]);
}

void ReplicaChoice::sent(const std::string& name, const NodeId& replica) {
  if (records_.size() >= kMost)
    std::erase_if(records_, [](const auto& one) { return one.second.under_way == 0; });
  ++records_[{name, replica}].under_way;
}

void ReplicaChoice::ended(const std::string& name, const NodeId& replica, Time now,
                          std::optional<Duration> answered_in) {
  const auto found = records_.find({name, replica});
  if (found == records_.end()) return;
  Record& record = found->second;
  if (record.under_way > 0) --record.under_way;
  if (!answered_in) return;
  const double took = std::max(seconds_of(*answered_in), 1e-9);
  record.seconds = record.seconds == 0 ? took : record.seconds + kNewest * (took - record.seconds);
  record.at = now;
}

}  // namespace gpunode::node
