#include "actors/node/peer_limits.hpp"

#include <string>
#include <utility>

#include "runtime/base/bytes.hpp"
#include "runtime/base/check.hpp"

namespace gpunode::node {
namespace {

constexpr std::size_t operator""_MiB(unsigned long long count) {
  return static_cast<std::size_t>(count) << 20;
}

// All that waits of one peer stays below 200 MB.
constexpr std::array kLimits{
    PeerLimit{Load::none, "none", 0, 0, 0, WhenOver::taken},
    PeerLimit{Load::gossip, "gossip", 200, 400, 2_MiB, WhenOver::dropped},
    PeerLimit{Load::directory, "directory", 200, 400, 4_MiB, WhenOver::dropped},
    PeerLimit{Load::admission, "admission", 200, 1000, 4_MiB, WhenOver::dropped},
    PeerLimit{Load::job, "job", 100'000, 100'000, 8_MiB, WhenOver::dropped},
    PeerLimit{Load::job_bulk, "job_bulk", 100'000, 100'000, 16_MiB, WhenOver::held_back},
    PeerLimit{Load::service, "service", 500'000, 500'000, 96_MiB, WhenOver::refused},
    PeerLimit{Load::question, "question", 200, 400, 8_MiB, WhenOver::refused},
    PeerLimit{Load::work, "work", 20, 200, 8_MiB, WhenOver::refused},
};

// What a message costs besides its bytes: its place in a mailbox, what it is read into.
constexpr std::size_t kMessageCost = 512;
// So many of them count as one more message.
constexpr std::size_t kBytesLikeOne = std::size_t{64} << 10;
// Of more peers than that, those are forgotten of which nothing waits.
constexpr std::size_t kManyPeers = 1024;
constexpr Duration kIdle = std::chrono::minutes(1);
constexpr Duration kLookEvery = std::chrono::seconds(1);

std::size_t index_of(Load load) {
  return static_cast<std::size_t>(load);
}

std::string_view key_of(const NodeId& node) {
  return as_text(node.value);
}

}  // namespace

std::span<const PeerLimit> peer_limits() {
  return kLimits;
}

const PeerLimit& limit_of(Load load) {
  return kLimits[index_of(load)];
}

double cost_of(std::size_t bytes) {
  return 1 + static_cast<double>(bytes) / static_cast<double>(kBytesLikeOne);
}

struct PeerLimits::Held {
  Held(std::shared_ptr<Peer> peer, std::size_t load, std::size_t bytes)
      : of(std::move(peer)), at(load), count(bytes) {}
  Held(const Held&) = delete;
  ~Held() { of->waiting[at] -= count; }

  std::shared_ptr<Peer> of;
  std::size_t at, count;
};

PeerLimits::PeerLimits(const Options& options) : options_(options) {
  static_assert(kLimits.size() == kLoads);
  for (const PeerLimit& limit : kLimits) {
    GPUNODE_CHECK(limit_of(limit.load).name == limit.name, "the limits stand in the loads' order");
    const telemetry::Labels labels{{"load", std::string(limit.name)}};
    rates_.emplace_back(security::RateLimit::Options{limit.burst, limit.per_second});
    taken_.push_back(
        &options_.metrics->counter("gpunode_peer_messages_total",
                                   "Messages and calls of other nodes, by kind of load", labels));
    refused_.push_back(&options_.metrics->counter(
        "gpunode_peer_refused_total", "Those of them that were over the peer's limits", labels));
  }
}

std::shared_ptr<PeerLimits::Peer> PeerLimits::peer(const NodeId& node) {
  std::shared_ptr<Peer>& found = peers_[node];
  if (!found) found = std::make_shared<Peer>();
  found->seen = options_.clock->now();
  return found;
}

void PeerLimits::forget_idle(Time now) {
  if (peers_.size() <= kManyPeers || now < next_look_) return;
  next_look_ = now + kLookEvery;  // not with each message of so many
  std::erase_if(peers_, [&](const auto& one) {
    return one.second.use_count() == 1 && now >= one.second->seen + kIdle;
  });
}

void PeerLimits::refuse(const NodeId& node, Load load) {
  refused_[index_of(load)]->add();
  options_.authority->refused(
      node, "too much of the kind '" + std::string(limit_of(load).name) + "' at once");
  // Calls are refused with an answer, which may well be heeded.
  if (options_.offenders && limit_of(load).over == WhenOver::dropped)
    options_.offenders->offended(node, security::Offenders::kTooMany);
}

// One that is alone may be larger than the share; it is bounded by the link.
PeerLimits::Place PeerLimits::take(std::shared_ptr<Peer> peer, const NodeId& node, Load load,
                                   std::size_t bytes) {
  const PeerLimit& limit = limit_of(load);
  const std::size_t cost = bytes + kMessageCost;
  const std::size_t before = peer->waiting[index_of(load)].fetch_add(cost);
  Place held = std::make_shared<const Held>(std::move(peer), index_of(load), cost);
  const bool bounded = limit.over == WhenOver::dropped || limit.over == WhenOver::refused;
  if (!bounded || before == 0 || before + cost <= limit.bytes) return held;
  refuse(node, load);
  return nullptr;
}

PeerLimits::Place PeerLimits::enter(const NodeId& from, Load load, std::size_t bytes) {
  std::shared_ptr<Peer> here;
  bool allowed = true;
  {
    const Time now = options_.clock->now();
    std::lock_guard lock(mutex_);
    forget_idle(now);
    here = peer(from);
    if (limit_of(load).over != WhenOver::taken)
      allowed = rates_[index_of(load)].allow(key_of(from), now, cost_of(bytes));
  }
  taken_[index_of(load)]->add();
  if (allowed) return take(std::move(here), from, load, bytes);
  refuse(from, load);
  return nullptr;
}

double offence_of(transport::Dropped why) {
  switch (why) {
    case transport::Dropped::unreadable:
      return security::Offenders::kMalformed;
    case transport::Dropped::out_of_session:
      return security::Offenders::kOutOfSession;
    case transport::Dropped::of_later_version:
      return security::Offenders::kOfLaterVersion;
    case transport::Dropped::too_often:
      break;
  }
  return security::Offenders::kTooMany;
}

PeerLimits::Place PeerLimits::hold(const NodeId& to, Load load, std::size_t bytes) {
  std::shared_ptr<Peer> here;
  {
    std::lock_guard lock(mutex_);
    here = peer(to);
  }
  return take(std::move(here), to, load, bytes);
}

void PeerLimits::sent_malformed(const NodeId& by) const {
  if (options_.offenders) options_.offenders->offended(by, security::Offenders::kMalformed);
}

bool PeerLimits::has_room(const NodeId& from, Load load) const {
  std::lock_guard lock(mutex_);
  const auto found = peers_.find(from);
  return found == peers_.end() || found->second->waiting[index_of(load)] < limit_of(load).bytes;
}

}  // namespace gpunode::node
