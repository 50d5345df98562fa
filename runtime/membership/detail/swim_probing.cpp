// The rules of time: ticks, probes and their helpers, full tables, the dead who are tried again.
#include <algorithm>
#include <cmath>

#include "runtime/membership/detail/swim_core.hpp"
#include "runtime/membership/membership_codec.hpp"

namespace gpunode::membership {

namespace {
constexpr std::size_t kPiggybackRumors = 8;
constexpr std::size_t kPiggybackBytes = 4096;
constexpr std::size_t kMaxRelays = 256;
constexpr Duration kSyncPause = std::chrono::milliseconds(300);
constexpr Duration kHintPause = std::chrono::milliseconds(500);
}  // namespace

Duration Swim::Core::jittered(Duration duration) {
  const double factor = 0.75 + 0.5 * rng_.uniform();
  return Duration(static_cast<Duration::rep>(static_cast<double>(duration.count()) * factor));
}

void Swim::Core::shift_health(int by) {
  health_ = std::clamp(health_ + by, 0, config_.health_cap);
}

int Swim::Core::tell_limit() const {
  const double n = static_cast<double>(live_count());
  return std::max(2, static_cast<int>(std::ceil(config_.retransmit_factor * std::log10(n + 1.0))));
}

void Swim::Core::begin(Time now) {
  now_ = now;
  forgive_lateness();
}

Actions Swim::Core::finish() {
  if (push_wanted_) {
    push_wanted_ = false;
    const auto targets = pick(config_.push_fanout, [](const Member& member) {
      return member.state == PeerHealth::alive || member.state == PeerHealth::suspect;
    });
    if (!targets.empty()) {
      Message message;
      message.rumors = rumors_.take(kMaxRumors / 2, config_.max_message_bytes, tell_limit());
      if (!message.rumors.empty())
        for (const NodeId& to : targets) send(to, message, false);
    }
  }
  return std::exchange(actions_, {});
}

void Swim::Core::on_traffic(const NodeId& from) {
  answered(from, true);
}

void Swim::Core::on_message(const NodeId& from, ByteView bytes) {
  if (from == self_.id || self_.left) return;
  if (signing_.admitted && !signing_.admitted(from)) {
    ++rejected_;
    return;
  }
  auto message = decode(bytes);
  if (!message) {
    ++rejected_;
    return;
  }
  answered(from, true);
  for (const Rumor& rumor : message->rumors) apply_rumor(from, rumor);
  const auto known = members_.find(from);
  if (known == members_.end())
    ask_table(from);
  else if (known->second.state == PeerHealth::dead || known->second.state == PeerHealth::left)
    send_rumor(from, rumor_of(known->second, true));  // it objects if it sees this
  switch (message->kind) {
    case MessageKind::ping: {
      Message reply;
      reply.kind = MessageKind::ack;
      reply.sequence = message->sequence;
      reply.target = self_.id;
      return send(from, std::move(reply));
    }
    case MessageKind::ack: {
      if (message->target != from) answered(message->target, false);
      const auto relay = relays_.find(message->sequence);
      if (relay == relays_.end() || relay->second.target != from) return;
      Message reply;
      reply.kind = MessageKind::ack;
      reply.sequence = relay->second.sequence;
      reply.target = from;
      send(relay->second.requester, std::move(reply));
      relays_.erase(relay);
      return;
    }
    case MessageKind::ping_request: {
      if (relays_.size() >= kMaxRelays || message->target == self_.id) return;
      const std::uint64_t sequence = ++sequence_;
      relays_[sequence] = {from, message->sequence, message->target, now_ + config_.ack_timeout};
      Message ping;
      ping.kind = MessageKind::ping;
      ping.sequence = sequence;
      return send(message->target, std::move(ping));
    }
    case MessageKind::nack: {
      const auto probe = probes_.find(message->sequence);
      if (probe != probes_.end()) ++probe->second.nacks;
      return;
    }
    case MessageKind::sync:
      if (message->reply_wanted) send_table(from, false);
      return;
    case MessageKind::gossip:
      return;
  }
}

void Swim::Core::on_tick() {
  if (self_.left) return;
  advance_relays();
  advance_probes();
  judge_suspects();
  start_probes();
  repeat_gossip();
  sync_one();
  retry_dead();
  retry_seeds();
  forget_old();
}

// This machine did not run for a while, so the others' silence proves nothing: all waits begin
// that much later, and this machine counts as slow.
void Swim::Core::forgive_lateness() {
  const Duration late = now_ - last_run_ - config_.period / 4;
  last_run_ = now_;
  if (late < config_.period / 2) return;
  shift_health(+1);
  for (auto& [sequence, probe] : probes_) probe.started += late;
  for (auto& [sequence, relay] : relays_) relay.deadline += late;
  for (auto& [id, track] : tracks_)
    if (track.suspicion) track.suspicion->started += late;
  for (auto& [id, member] : members_)
    if (member.heard != Time{}) member.heard += late;
}

void Swim::Core::advance_probes() {
  std::vector<std::uint64_t> failed;
  for (auto& [sequence, probe] : probes_) {
    const Duration waited = now_ - probe.started;
    if (waited >= 3 * probe.timeout) {
      failed.push_back(sequence);
    } else if (waited >= probe.timeout && !probe.indirect) {
      probe.indirect = true;
      const NodeId target = probe.target;
      const auto helpers = pick(config_.indirect_probes, [&](const Member& member) {
        return member.state == PeerHealth::alive && member.record.id != target;
      });
      probe.helpers = helpers.size();
      for (const NodeId& helper : helpers) {
        Message request;
        request.kind = MessageKind::ping_request;
        request.sequence = sequence;
        request.target = target;
        send(helper, std::move(request));
      }
    }
  }
  for (const std::uint64_t sequence : failed) {
    const auto found = probes_.find(sequence);
    if (found == probes_.end()) continue;
    const Probe probe = found->second;
    probes_.erase(found);
    fail_probe(probe);
  }
}

void Swim::Core::fail_probe(const Probe& probe) {
  // Helpers that did not even say "no" hint that it is we who are slow or cut off.
  shift_health(static_cast<int>(probe.helpers - std::min(probe.helpers, probe.nacks)));
  const auto member = members_.find(probe.target);
  if (member == members_.end()) return;
  const PeerHealth state = member->second.state;
  if (state == PeerHealth::alive || state == PeerHealth::suspect) suspect(member->second);
}

std::optional<NodeId> Swim::Core::next_target() {
  const auto live = [&](const NodeId& id) {
    const auto found = members_.find(id);
    return found != members_.end() &&
           (found->second.state == PeerHealth::alive || found->second.state == PeerHealth::suspect);
  };
  for (int sweep = 0; sweep < 2; ++sweep) {
    while (!round_.empty()) {
      const NodeId id = round_.back();
      round_.pop_back();
      if (live(id)) return id;
    }
    for (const auto& [id, member] : members_) round_.push_back(id);
    for (std::size_t i = round_.size(); i > 1; --i) std::swap(round_[i - 1], round_[rng_.below(i)]);
  }
  return std::nullopt;
}

void Swim::Core::start_probes() {
  while (!urgent_.empty()) {
    const NodeId target = urgent_.front();
    urgent_.pop_front();
    const auto found = members_.find(target);
    if (found == members_.end()) continue;
    const PeerHealth state = found->second.state;
    if (state == PeerHealth::alive || state == PeerHealth::suspect) start_probe(target);
  }
  if (now_ < next_probe_) return;
  next_probe_ = now_ + config_.period * (1 + health_ / 2);
  if (const auto target = next_target()) {
    // Traffic within the period is as good as an answer.
    const Member& member = members_.at(*target);
    const bool fresh = member.heard != Time{} && now_ - member.heard < config_.period;
    if (member.state == PeerHealth::suspect || !fresh || config_.mutation.ignore_answers)
      start_probe(*target);
  }
}

void Swim::Core::start_probe(const NodeId& target) {
  for (const auto& [sequence, probe] : probes_)
    if (probe.target == target) return;
  Message ping;
  ping.kind = MessageKind::ping;
  ping.sequence = ++sequence_;
  probes_[ping.sequence] = {target, now_, config_.ack_timeout * (1 + health_), false, 0, 0};
  const Member& member = members_.at(target);
  // Buddy rule: a suspect learns of it with the very probe, so that it can object.
  if (member.state == PeerHealth::suspect) ping.rumors.push_back(rumor_of(member, false));
  send(target, std::move(ping));
}

void Swim::Core::urge(const NodeId& target) {
  // In a large house a few look again, not all at once.
  const std::size_t live = live_count();
  if (live > 64 && !rng_.chance(16.0 / static_cast<double>(live))) return;
  if (std::find(urgent_.begin(), urgent_.end(), target) == urgent_.end()) urgent_.push_back(target);
}

void Swim::Core::advance_relays() {
  std::vector<Relay> expired;
  std::erase_if(relays_, [&](const auto& each) {
    if (now_ < each.second.deadline) return false;
    expired.push_back(each.second);
    return true;
  });
  for (const Relay& relay : expired) {
    Message reply;
    reply.kind = MessageKind::nack;
    reply.sequence = relay.sequence;
    reply.target = relay.target;
    send(relay.requester, std::move(reply));
  }
}

void Swim::Core::judge_suspects() {
  std::vector<NodeId> suspects;
  for (const auto& [id, member] : members_)
    if (member.state == PeerHealth::suspect) suspects.push_back(id);
  for (const NodeId& id : suspects) judge(members_.at(id));
}

void Swim::Core::repeat_gossip() {
  if (now_ < next_gossip_) return;
  next_gossip_ = now_ + config_.period;
  if (!rumors_.empty()) push_wanted_ = true;
}

void Swim::Core::sync_one() {
  if (now_ < next_sync_) return;
  next_sync_ = now_ + jittered(config_.sync_interval);
  const auto targets =
      pick(1, [](const Member& member) { return member.state == PeerHealth::alive; });
  for (const NodeId& to : targets) send_table(to, true);
}

void Swim::Core::retry_dead() {
  if (now_ < next_retry_) return;
  next_retry_ = now_ + jittered(config_.dead_retry);
  if (config_.mutation.no_dead_retry) return;
  const auto targets =
      pick(1, [](const Member& member) { return member.state == PeerHealth::dead; });
  for (const NodeId& to : targets) {
    hint_connect(members_.at(to));
    send_table(to, true);
  }
}

// Often at first (somebody waits for this join), then at the pace of the dead.
void Swim::Core::retry_seeds() {
  for (auto& [id, seed] : seeds_) {
    if (now_ < seed.next_try) continue;
    seed.next_try = now_ + jittered(seed.pause);
    seed.pause = std::min(seed.pause * 2, config_.dead_retry);
    actions_.push_back(Connect{seed.record});
    send_table(id, true);
  }
}

void Swim::Core::add_seed(const MemberRecord& record) {
  if (record.id == self_.id || members_.contains(record.id)) return;
  if (!acceptable(record)) return;
  if (seeds_.size() >= config_.max_members) return;
  seeds_[record.id] = {record, now_, config_.period};
  retry_seeds();
}

void Swim::Core::forget_old() {
  std::vector<NodeId> old;
  for (const auto& [id, member] : members_)
    if ((member.state == PeerHealth::dead || member.state == PeerHealth::left) &&
        now_ - member.since >= config_.forget_after)
      old.push_back(id);
  for (const NodeId& id : old) {
    members_.erase(id);
    tracks_.erase(id);
    rumors_.drop(id);
    actions_.push_back(Forget{id});
  }
}

std::vector<NodeId> Swim::Core::pick(std::size_t count,
                                     const std::function<bool(const Member&)>& accept) {
  std::vector<NodeId> chosen;
  for (const auto& [id, member] : members_)
    if (accept(member)) chosen.push_back(id);
  for (std::size_t i = 0; i < std::min(count, chosen.size()); ++i)
    std::swap(chosen[i], chosen[i + rng_.below(chosen.size() - i)]);
  chosen.resize(std::min(count, chosen.size()));
  return chosen;
}

Rumor Swim::Core::rumor_of(const Member& member, bool with_record) const {
  Rumor rumor;
  rumor.state = member.state;
  rumor.subject = member.record.id;
  rumor.incarnation = member.record.incarnation;
  if (with_record) rumor.record = member.record;
  const auto track = tracks_.find(member.record.id);
  if (track == tracks_.end() || !track->second.suspicion) return rumor;
  const auto copy = [](const std::set<NodeId>& from, std::vector<NodeId>& into) {
    for (const NodeId& id : from)
      if (into.size() < kMaxObservers) into.push_back(id);
  };
  copy(track->second.suspicion->observers, rumor.observers);
  copy(track->second.suspicion->refused_by, rumor.refused_by);
  return rumor;
}

Rumor Swim::Core::own_rumor() const {
  return {self_.left ? PeerHealth::left : PeerHealth::alive,
          self_.id,
          self_.incarnation,
          {},
          {},
          self_};
}

void Swim::Core::tell(const Member& member, bool with_record) {
  rumors_.put(rumor_of(member, with_record));
  push_wanted_ = true;
}

void Swim::Core::send(const NodeId& to, Message message, bool piggyback) {
  if (piggyback)
    for (Rumor& rumor : rumors_.take(kPiggybackRumors, kPiggybackBytes, tell_limit()))
      message.rumors.push_back(std::move(rumor));
  actions_.push_back(Send{to, encode(message)});
}

void Swim::Core::send_rumor(const NodeId& to, Rumor rumor) {
  if (to == self_.id) return;
  Message message;
  message.rumors.push_back(std::move(rumor));
  send(to, std::move(message), false);
}

void Swim::Core::send_table(const NodeId& to, bool reply_wanted) {
  // Two nodes that refuse each other's records must not answer each other at full speed.
  if (last_table_.size() > 2 * config_.max_members) last_table_.clear();
  const auto [last, first] = last_table_.try_emplace(to, now_);
  if (!first && now_ - last->second < kSyncPause) return;
  last->second = now_;
  Message message;
  message.kind = MessageKind::sync;
  message.reply_wanted = reply_wanted;
  message.rumors.push_back(own_rumor());
  std::size_t bytes = wire_estimate(message.rumors.back());
  for (const auto& [id, member] : members_) {
    Rumor rumor = rumor_of(member, true);
    const std::size_t size = wire_estimate(rumor);
    if (bytes + size > config_.max_message_bytes || message.rumors.size() >= kMaxRumors) {
      send(to, std::exchange(message, Message{}), false);
      message.kind = MessageKind::sync;
      bytes = 0;
    }
    bytes += size;
    message.rumors.push_back(std::move(rumor));
  }
  send(to, std::move(message), false);
}

// It spoke of somebody, or is somebody, whom we do not know.
void Swim::Core::ask_table(const NodeId& from) {
  send_table(from, true);
}

void Swim::Core::hint_connect(Member& member) {
  Track& track = tracks_[member.record.id];
  if (member.record.dial_only) return;
  if (track.last_hint != Time{} && now_ - track.last_hint < kHintPause) return;
  track.last_hint = now_;
  actions_.push_back(Connect{member.record});
}

}  // namespace gpunode::membership
