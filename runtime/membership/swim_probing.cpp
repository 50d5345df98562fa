// The rules of time: ticks, probes, full tables, the dead who are tried again.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "runtime/membership/membership_codec.hpp"
#include "runtime/membership/swim.hpp"

namespace gpunode::membership {

namespace {
constexpr std::size_t kPiggybackRumors = 8;
constexpr std::size_t kPiggybackBytes = 4096;
constexpr Duration kSyncPause = std::chrono::milliseconds(300);
constexpr Duration kHintPause = std::chrono::milliseconds(500);
constexpr Duration kUnheardAfterForgery = std::chrono::seconds(1);
}  // namespace

Duration Swim::jittered(Duration duration) {
  const double factor = 0.75 + 0.5 * rng_.uniform();
  return Duration(static_cast<Duration::rep>(static_cast<double>(duration.count()) * factor));
}

void Swim::shift_health(int by) {
  health_ = std::clamp(health_ + by, 0, config_.health_cap);
}

int Swim::tell_limit() const {
  const double n = static_cast<double>(live_count());
  return std::max(2, static_cast<int>(std::ceil(config_.retransmit_factor * std::log10(n + 1.0))));
}

Actions Swim::run(Time now, const std::function<void()>& event) {
  now_ = now;
  forgive_lateness();
  event();
  if (std::exchange(push_wanted_, false)) push();
  return std::exchange(actions_, {});
}

void Swim::push() {
  const auto targets = pick(config_.push_fanout, &Member::is_live);
  if (targets.empty()) return;
  Message message;
  message.rumors = rumors_.take(kMaxRumors / 2, config_.max_message_bytes, tell_limit());
  if (message.rumors.empty()) return;
  for (const NodeId& to : targets) send(to, message, false);
}

Actions Swim::on_traffic(Time now, const NodeId& from) {
  return run(now, [&] {
    if (!self_.left) answered(from, true);
  });
}

Actions Swim::on_connection(Time now, const NodeId& peer, LinkState state) {
  return run(now, [&] { take_connection(peer, state); });
}

Actions Swim::on_message(Time now, const NodeId& from, ByteView bytes) {
  return run(now, [&] {
    if (from == self_.id) return;
    if (signing_.admitted && !signing_.admitted(from)) {
      ++rejected_;
    } else if (const auto message = decode(bytes)) {
      self_.left ? take_goodbye_answer(from, *message) : take_message(from, *message);
    } else {
      ++rejected_;
      ++malformed_;
    }
  });
}

// Who passes on what nobody has signed lies, as an honest node checks what it passes on: nothing else is
// believed of the message, and no rumour of the sender for a while, so that checking costs little. Of
// several rumours about one subject the first is read: a message of ours has no more to say of it.
void Swim::take_rumors(const NodeId& from, const std::vector<Rumor>& rumors) {
  if (const auto track = tracks_.find(from);
      track != tracks_.end() && now_ < track->second.unheard_until)
    return;
  forged_ = false;
  std::set<NodeId> subjects;
  for (const Rumor& rumor : rumors) {
    if (!subjects.insert(rumor.subject).second) continue;
    apply_rumor(from, rumor);
    if (!forged_) continue;
    ++forged_messages_;
    if (find(from)) tracks_[from].unheard_until = now_ + kUnheardAfterForgery;
    return;
  }
}

void Swim::take_message(const NodeId& from, const Message& message) {
  answered(from, true);
  take_rumors(from, message.rumors);
  const Member* sender = find(from);
  if (!sender)
    send_table(from, true);
  else if (!sender->is_live())
    send_rumor(from, rumor_of(*sender, true));  // it objects if it sees this
  switch (message.kind) {
    case MessageKind::ping:
      return send(from, {MessageKind::ack, message.sequence, self_.id});
    case MessageKind::ack:
      return message.target == from ? pass_answer_on(from, message.sequence)
                                    : take_help(from, message);
    case MessageKind::nack:
      return take_help(from, message);
    case MessageKind::ping_request:
      return take_request(from, message);
    case MessageKind::sync:
      if (message.reply_wanted) send_table(from, false);
      return;
    case MessageKind::gossip:
      return;
  }
}

void Swim::say_goodbye(const NodeId& to) {
  send(to, {MessageKind::ping, goodbyes_.at(to), {}, false, {own_rumor()}}, false);
}

void Swim::take_goodbye_answer(const NodeId& from, const Message& message) {
  const auto asked = goodbyes_.find(from);
  if (asked == goodbyes_.end() || message.kind != MessageKind::ack) return;
  if (message.sequence != asked->second) return;
  goodbyes_.erase(asked);
  goodbye_answered_ = true;
}

void Swim::repeat_goodbyes() {
  if (now_ < next_gossip_) return;
  next_gossip_ = now_ + config_.period;
  for (const auto& [id, sequence] : goodbyes_) say_goodbye(id);
}

Actions Swim::on_tick(Time now) {
  Actions actions = run(now, [&] {
    if (self_.left) return repeat_goodbyes();
    advance_relays();
    advance_probes();
    judge_suspects();
    start_probes();
    repeat_gossip();
    sync_one();
    retry_dead();
    retry_seeds();
    forget_old();
  });
  until_tick_ = tick_interval();
  return actions;
}

Duration Swim::tick_interval() const {
  if (live_count() <= 1) return config_.period;
  const Duration often = config_.period / 4;
  const auto is_doubted = [](const auto& each) { return each.second.suspicion.has_value(); };
  if (self_.left || !probes_.empty() || !relays_.empty() || !urgent_.empty() || !rumors_.empty() ||
      std::ranges::any_of(tracks_, is_doubted))
    return often;
  return std::clamp<Duration>(next_probe_ - now_, often, config_.period);
}

// This machine did not run for a while, so the others' silence proves nothing: all waits begin
// that much later, and this machine counts as slow.
void Swim::forgive_lateness() {
  const Duration late = now_ - last_run_ - until_tick_;
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

void Swim::advance_probes() {
  std::vector<std::uint64_t> failed;
  for (auto& [sequence, probe] : probes_) {
    const Duration waited = now_ - probe.started;
    if (waited >= 3 * probe.timeout) {
      failed.push_back(sequence);
    } else if (waited >= probe.timeout && !probe.indirect) {
      ask_helpers(sequence, probe);
    }
  }
  for (const std::uint64_t sequence : failed)
    if (const auto probe = probes_.extract(sequence)) fail_probe(probe.mapped());
}

void Swim::fail_probe(const Probe& probe) {
  // Helpers that did not even say "no" hint that it is we who are slow or cut off.
  shift_health(static_cast<int>(
      std::ranges::count_if(probe.helpers, [](const auto& each) { return !each.second; })));
  Member* member = known(probe.target);
  if (member && member->is_live()) suspect(*member);
}

const Member* Swim::next_target() {
  for (int sweep = 0; sweep < 2; ++sweep) {
    while (!round_.empty()) {
      const Member* member = find(round_.back());
      round_.pop_back();
      if (member && member->is_live()) return member;
    }
    for (const auto& [id, member] : members_) round_.push_back(id);
    for (std::size_t i = round_.size(); i > 1; --i) std::swap(round_[i - 1], round_[rng_.below(i)]);
  }
  return nullptr;
}

void Swim::start_probes() {
  for (const NodeId& target : std::exchange(urgent_, {})) {
    const Member* member = find(target);
    if (member && member->is_live()) start_probe(*member);
  }
  if (now_ < next_probe_) return;
  next_probe_ = now_ + config_.period * (1 + health_ / 2);
  if (const Member* target = next_target()) {
    // Traffic within the period is as good as an answer.
    const bool fresh = target->heard != Time{} && now_ - target->heard < config_.period;
    if (target->state == PeerHealth::suspect || !fresh || config_.mutation.ignore_answers)
      start_probe(*target);
  }
}

void Swim::start_probe(const Member& member) {
  const NodeId& target = member.record.id;
  for (const auto& [sequence, probe] : probes_)
    if (probe.target == target) return;
  // Whom others call dead is not waited for as long as our own slowness would have it.
  constexpr int kPatience = 2;
  const auto track = tracks_.find(target);
  const bool called_dead = member.state == PeerHealth::suspect && track != tracks_.end() &&
                           track->second.suspicion && track->second.suspicion->called_dead;
  const int slowness = called_dead ? std::min<int>(health_, kPatience) : health_;
  Message ping{MessageKind::ping, ++sequence_};
  probes_[ping.sequence] = {target, now_, config_.ack_timeout * (1 + slowness), false, {}};
  // Buddy rule: a suspect learns of it with the very probe, so that it can object.
  if (member.state == PeerHealth::suspect) ping.rumors.push_back(rumor_of(member, false));
  send(target, std::move(ping));
}

void Swim::urge(const NodeId& target) {
  // In a large house a few look again, not all at once.
  const std::size_t live = live_count();
  if (live > 64 && !rng_.chance(16.0 / static_cast<double>(live))) return;
  probe_next(target);
}

void Swim::probe_next(const NodeId& target) {
  if (std::find(urgent_.begin(), urgent_.end(), target) == urgent_.end()) urgent_.push_back(target);
}

void Swim::judge_suspects() {
  std::vector<NodeId> suspects;
  for (const auto& [id, member] : members_)
    if (member.state == PeerHealth::suspect) suspects.push_back(id);
  for (const NodeId& id : suspects) judge(members_.at(id));
}

void Swim::repeat_gossip() {
  if (now_ < next_gossip_) return;
  next_gossip_ = now_ + config_.period;
  if (!rumors_.empty()) push_wanted_ = true;
}

void Swim::sync_one() {
  if (now_ < next_sync_) return;
  next_sync_ = now_ + jittered(config_.sync_interval);
  const auto targets =
      pick(1, [](const Member& member) { return member.state == PeerHealth::alive; });
  for (const NodeId& to : targets) send_table(to, true);
}

void Swim::retry_dead() {
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
void Swim::retry_seeds() {
  for (auto& [id, seed] : seeds_) {
    if (now_ < seed.next_try) continue;
    seed.next_try = now_ + jittered(seed.pause);
    seed.pause = std::min(seed.pause * 2, config_.dead_retry);
    actions_.push_back(Connect{seed.record});
    send_table(id, true);
  }
}

Actions Swim::add_seed(Time now, const MemberRecord& record) {
  return run(now, [&] {
    if (record.id == self_.id || members_.contains(record.id)) return;
    if (!acceptable(record)) return;
    if (seeds_.size() >= config_.max_members) return;
    seeds_[record.id] = {record, now_, config_.period};
    retry_seeds();
  });
}

void Swim::forget_old() {
  std::vector<NodeId> old;
  for (const auto& [id, member] : members_)
    if (!member.is_live() && now_ - member.since >= config_.forget_after) old.push_back(id);
  for (const NodeId& id : old) {
    members_.erase(id);
    tracks_.erase(id);
    rumors_.drop(id);
    actions_.push_back(Forget{id});
  }
}

std::vector<NodeId> Swim::pick(std::size_t count,
                               const std::function<bool(const Member&)>& accept) {
  std::vector<NodeId> chosen;
  for (const auto& [id, member] : members_)
    if (accept(member)) chosen.push_back(id);
  for (std::size_t i = 0; i < std::min(count, chosen.size()); ++i)
    std::swap(chosen[i], chosen[i + rng_.below(chosen.size() - i)]);
  chosen.resize(std::min(count, chosen.size()));
  return chosen;
}

Rumor Swim::rumor_of(const Member& member, bool with_record) const {
  Rumor rumor;
  rumor.state = member.state;
  rumor.subject = member.record.id;
  rumor.incarnation = member.record.incarnation;
  if (with_record) rumor.record = member.record;
  const auto track = tracks_.find(member.record.id);
  if (track == tracks_.end() || !track->second.suspicion) return rumor;
  const auto first_of = [](const std::set<NodeId>& ids) {
    const auto count = std::min(ids.size(), kMaxObservers);
    return std::vector<NodeId>(ids.begin(), std::next(ids.begin(), static_cast<long>(count)));
  };
  rumor.observers = first_of(track->second.suspicion->observers);
  rumor.refused_by = first_of(track->second.suspicion->refused_by);
  return rumor;
}

Rumor Swim::own_rumor() const {
  return rumor_of({self_, self_.left ? PeerHealth::left : PeerHealth::alive}, true);
}

void Swim::tell(const Member& member, bool with_record) {
  rumors_.put(rumor_of(member, with_record));
  push_wanted_ = true;
}

void Swim::send(const NodeId& to, Message message, bool piggyback) {
  if (piggyback)
    for (Rumor& rumor : rumors_.take(kPiggybackRumors, kPiggybackBytes, tell_limit()))
      message.rumors.push_back(std::move(rumor));
  actions_.push_back(Send{to, encode(message)});
}

void Swim::send_rumor(const NodeId& to, Rumor rumor) {
  if (to == self_.id) return;
  Message message;
  message.rumors.push_back(std::move(rumor));
  send(to, std::move(message), false);
}

void Swim::send_table(const NodeId& to, bool reply_wanted) {
  // Two nodes that refuse each other's records must not answer each other at full speed.
  if (last_table_.size() > 2 * config_.max_members) last_table_.clear();
  const auto [last, first] = last_table_.try_emplace(to, now_);
  if (!first && now_ - last->second < kSyncPause) return;
  last->second = now_;
  Message message{MessageKind::sync, 0, {}, reply_wanted, {own_rumor()}};
  std::size_t bytes = wire_estimate(message.rumors.back());
  for (const auto& [id, member] : members_) {
    Rumor rumor = rumor_of(member, true);
    const std::size_t size = wire_estimate(rumor);
    if (bytes + size > config_.max_message_bytes || message.rumors.size() >= kMaxRumors) {
      send(to, std::exchange(message, {MessageKind::sync}), false);
      bytes = 0;
    }
    bytes += size;
    message.rumors.push_back(std::move(rumor));
  }
  send(to, std::move(message), false);
}

void Swim::hint_connect(Member& member) {
  Track& track = tracks_[member.record.id];
  if (member.record.dial_only) return;
  if (track.last_hint != Time{} && now_ - track.last_hint < kHintPause) return;
  track.last_hint = now_;
  actions_.push_back(Connect{member.record});
}

}  // namespace gpunode::membership
