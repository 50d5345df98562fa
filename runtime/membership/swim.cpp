// The rules of the table: which record or rumour changes what, and when evidence is complete.
#include "runtime/membership/swim.hpp"

#include <algorithm>

namespace gpunode::membership {

namespace {
// A claim about us may raise our counter by this much at most: a hostile number must not use up
// the counter's range.
constexpr std::uint64_t kMaxCounterJump = 1000;
// Of one member in one life, at once and then.
constexpr double kMostChanges = 20, kChangesPerSecond = 4;
// A member that we hear from is told this often what others say of it: it must not be ours to flood.
constexpr Duration kContestPause = std::chrono::milliseconds(300);
}  // namespace

Swim::Swim(MemberRecord self, SwimConfig config, RecordSigning signing, std::uint64_t seed,
           Time now)
    : config_(config),
      signing_(std::move(signing)),
      rng_(mix(seed, 0x5717)),
      now_(now),
      self_(std::move(self)),
      last_run_(now),
      until_tick_(config.period),
      next_probe_(now + jittered(config.period)),
      next_gossip_(now + jittered(config.period)),
      next_sync_(now + jittered(config.sync_interval)),
      next_retry_(now + jittered(config.dead_retry)) {
  self_.left = false;
  change_self(self_.incarnation.counter);
}

void Swim::change_self(std::uint64_t counter) {
  self_.incarnation.counter = counter;
  self_.signature = signing_.sign(signed_bytes(self_));
  rumors_.put(own_rumor());
  push_wanted_ = true;
}

Actions Swim::announce(Time now, const MemberRecord& changed) {
  return run(now, [&] {
    MemberRecord next = changed;
    next.id = self_.id;
    next.incarnation = self_.incarnation;
    next.sign_key = self_.sign_key;
    next.left = self_.left;
    next.signature = self_.signature;
    if (next == self_ || !well_formed(next)) return;
    self_ = std::move(next);
    change_self(self_.incarnation.counter + 1);
  });
}

Actions Swim::leave(Time now) {
  return run(now, [&] {
    if (self_.left) return;
    self_.left = true;
    change_self(self_.incarnation.counter + 1);
    push_wanted_ = false;
    next_gossip_ = now_ + config_.period;
    for (const auto& [id, member] : members_)
      if (member.is_live()) goodbyes_[id] = ++sequence_;
    // A node that has just been started knows nobody else yet.
    for (const auto& [id, seed] : seeds_) goodbyes_[id] = ++sequence_;
    for (const auto& [id, sequence] : goodbyes_) say_goodbye(id);
  });
}

Actions Swim::expel(Time now, const NodeId& id) {
  return run(now, [&] {
    seeds_.erase(id);
    Member* member = known(id);
    if (!member || member->state == PeerHealth::left) return;
    std::erase_if(probes_, [&](const auto& probe) { return probe.second.target == id; });
    tracks_[id].suspicion.reset();
    rumors_.drop(id);
    set_state(*member, PeerHealth::left, "put out");
  });
}

const Member* Swim::find(const NodeId& id) const {
  const auto found = members_.find(id);
  return found == members_.end() ? nullptr : &found->second;
}

Member* Swim::known(const NodeId& id) {
  return const_cast<Member*>(find(id));
}

std::size_t Swim::live_count() const {
  return 1 +
         std::ranges::count_if(members_, [](const auto& each) { return each.second.is_live(); });
}

// Others that we hear from and that could confirm a suspicion against `target`.
std::size_t Swim::confirmers(const NodeId& target) const {
  return std::ranges::count_if(members_, [&](const auto& each) {
    return each.first != target && each.second.state == PeerHealth::alive;
  });
}

Suspicion& Swim::suspicion_of(const Member& member) {
  std::optional<Suspicion>& suspicion = tracks_[member.record.id].suspicion;
  return suspicion ? *suspicion : suspicion.emplace(Suspicion{now_});
}

// Others saw it refuse a dial.
void Swim::ask_for_dial(Member& member) {
  tracks_[member.record.id].dial_asked = true;
  hint_connect(member);
}

// Whether our own link speaks against this rumour. Where others saw dials refused, a connection of
// ours that broke since the last answer bears them out.
bool Swim::contradicts(const Member& member, const Rumor& rumor) const {
  if (config_.mutation.ignore_answers) return false;
  const auto track = tracks_.find(member.record.id);
  if (track == tracks_.end()) return false;
  if (track->second.reset_seen && !rumor.refused_by.empty()) return false;
  return member.heard != Time{} &&
         now_ - member.heard < suspicion_minimum(config_, live_count(), health_);
}

bool Swim::acceptable(const MemberRecord& record) {
  if (well_formed(record) && (!signing_.admitted || signing_.admitted(record.id))) {
    if (config_.mutation.unsigned_records ||
        signing_.verify(record.id, record.sign_key, signed_bytes(record), record.signature))
      return true;
    forged_ = true;
  }
  ++rejected_;
  return false;
}

// Whether the member's record may be replaced again in the same life. Each time costs a signature, and
// all others are told: one that would say something new all day is heard as often as an honest one that
// is suspected without end. What others make up about it takes nothing from that.
bool Swim::may_change(Track& track) const {
  return track.changes.any(now_, kMostChanges, kChangesPerSecond);
}

// Whether there is one.
bool Swim::Allowance::any(Time now, double most, double per_second) {
  const double seconds = std::chrono::duration<double>(now - seen).count();
  left = std::min(most, left + per_second * seconds);
  seen = now;
  return left >= 1;
}

bool Swim::Allowance::take(Time now, double most, double per_second) {
  if (!any(now, most, per_second)) return false;
  left -= 1;
  return true;
}

// Whether the table has a newer record now.
bool Swim::apply_record(const MemberRecord& record, std::string_view reason, bool called_dead) {
  if (record.id == self_.id) {
    apply_own_record(record);
    return false;
  }
  auto found = members_.find(record.id);
  const bool known = found != members_.end();
  if (known && record.incarnation <= found->second.record.incarnation) {
    const bool stale_boot = record.incarnation.boot < found->second.record.incarnation.boot;
    if (!(config_.mutation.accept_stale_boot && stale_boot)) return false;
  }
  if (known && record.incarnation.boot == found->second.record.incarnation.boot &&
      !may_change(tracks_[record.id]))
    return false;
  if (!acceptable(record)) return false;
  if (!known) {
    if (members_.size() >= config_.max_members) {
      ++rejected_;
      return false;
    }
    found = members_.emplace(record.id, Member{}).first;
    if (const auto heard = strangers_.extract(record.id)) found->second.heard = heard.mapped();
    round_.insert(round_.begin() + static_cast<std::ptrdiff_t>(rng_.below(round_.size() + 1)),
                  record.id);
  }
  Member& member = found->second;
  Track& track = tracks_[record.id];
  const bool new_life = member.record.incarnation.boot != record.incarnation.boot;
  member.record = record;
  track.suspicion.reset();
  track.dial_asked = false;
  track.contested = Time{};
  if (new_life) {
    track.reset_seen = false;
    track.changes = {kMostChanges, now_};
  } else {
    track.changes.left -= 1;
  }
  if (record.left) {
    set_state(member, PeerHealth::left, "left");
  } else if (!known && called_dead) {  // nobody is to take it for live before it has answered
    begin_suspicion(member, reason);
    hint_connect(member);
  } else {
    set_state(member, PeerHealth::alive, known ? reason : "joined");
  }
  seeds_.erase(record.id);
  tell(member, true);
  return true;
}

// Somebody holds a record of our own. An older one is none of our business; one that we did not
// make in this life means that our identity is used twice.
void Swim::apply_own_record(const MemberRecord& record) {
  if (record.incarnation <= self_.incarnation) return;
  if (!acceptable(record)) return;
  if (record.incarnation.boot == self_.incarnation.boot) {
    if (!self_.left) change_self(std::min(record.incarnation.counter + 1, kMaxCounter));
  } else if (!conflict_told_) {
    conflict_told_ = true;
    actions_.push_back(Conflict{record});
  }
}

void Swim::apply_rumor(const NodeId& from, const Rumor& rumor) {
  if (rumor.record)
    apply_record(*rumor.record, from == rumor.subject ? "answered" : "others say so",
                 rumor.state == PeerHealth::dead);
  if (rumor.state == PeerHealth::suspect || rumor.state == PeerHealth::dead)
    apply_claim(from, rumor);
  // It was not let in for a while.
  if (rumor.state == PeerHealth::left && rumor.subject == self_.id) refute(rumor.incarnation);
}

void Swim::apply_claim(const NodeId& from, const Rumor& rumor) {
  if (rumor.subject == self_.id) return refute(rumor.incarnation);
  Member* member = known(rumor.subject);
  // It spoke of somebody whom we do not know, or not yet in this life.
  if (!member || rumor.incarnation > member->record.incarnation) return send_table(from, true);
  if (rumor.incarnation < member->record.incarnation)
    return send_rumor(from, rumor_of(*member, true));
  // Who still looks for a second observer has missed what the others came to.
  if (!member->is_live()) {
    if (rumor.state == PeerHealth::suspect) send_rumor(from, rumor_of(*member, false));
    return;
  }
  const bool is_news = member->state == PeerHealth::alive || rumor.state == PeerHealth::dead;
  if (is_news && contradicts(*member, rumor)) return contest(*member, rumor);
  apply_doubt(*member, rumor);
}

// We are called suspect or dead: object with a higher counter, and blame our own slowness first.
void Swim::refute(const Incarnation& claimed) {
  if (self_.left || config_.mutation.no_refutation) return;
  if (claimed.boot != self_.incarnation.boot || claimed.counter < self_.incarnation.counter) {
    rumors_.put(own_rumor());
    return;
  }
  if (claimed.counter - self_.incarnation.counter > kMaxCounterJump) {
    ++rejected_;
    return;
  }
  shift_health(+1);
  change_self(claimed.counter + 1);
}

// Adds the rumour's observers; whether any is new. The names may be made up: judge() does not rest on
// them alone.
bool Swim::confirm(Member& member, const Rumor& rumor) {
  Suspicion& suspicion = suspicion_of(member);
  bool fresh = false;
  const auto merge = [&](const std::vector<NodeId>& from, std::set<NodeId>& into) {
    for (const NodeId& observer : from) {
      if (observer == self_.id || observer == member.record.id) continue;
      if (into.size() >= kMaxObservers || !members_.contains(observer)) continue;
      fresh |= into.insert(observer).second;
    }
  };
  merge(rumor.observers, suspicion.observers);
  merge(rumor.refused_by, suspicion.refused_by);
  if (!rumor.refused_by.empty() && !suspicion.refused_by.contains(self_.id)) ask_for_dial(member);
  return fresh;
}

// We hear from it while others do not: tell it, so that it can object, and look again ourselves.
void Swim::contest(Member& member, const Rumor& rumor) {
  if (!rumor.refused_by.empty()) ask_for_dial(member);
  urge(member.record.id);
  Track& track = tracks_[member.record.id];
  if (track.contested != Time{} && now_ - track.contested < kContestPause) return;
  track.contested = now_;
  Rumor claim = rumor;
  claim.record.reset();
  send_rumor(member.record.id, std::move(claim));
}

// Others find it silent, or take it as dead: that proves nothing, but we look, and it can object.
void Swim::apply_doubt(Member& member, const Rumor& rumor) {
  const bool was_alive = member.state == PeerHealth::alive;
  if (was_alive) begin_suspicion(member, "others say so");
  const bool fresh = confirm(member, rumor);
  if (rumor.state == PeerHealth::dead) suspicion_of(member).called_dead = true;
  if (was_alive) urge(member.record.id);
  if (judge(member)) return;
  if (fresh || was_alive) {
    tell(member, false);
    if (was_alive) send_rumor(member.record.id, rumor_of(member, false));
  }
}

void Swim::begin_suspicion(Member& member, std::string_view reason) {
  tracks_[member.record.id].suspicion.reset();
  set_state(member, PeerHealth::suspect, reason);
}

// Our own probe found it silent.
void Swim::suspect(Member& member) {
  if (member.state == PeerHealth::alive) begin_suspicion(member, "silent");
  const bool fresh = suspicion_of(member).observers.insert(self_.id).second;
  if (judge(member) || !fresh) return;
  tell(member, false);
  send_rumor(member.record.id, rumor_of(member, false));
}

// Any sign of life. `direct`: on our own link, not through a helper.
void Swim::answered(const NodeId& id, bool direct) {
  Member* found = known(id);
  if (!found) {
    if (strangers_.size() >= config_.max_members) strangers_.clear();
    if (direct) strangers_[id] = now_;
    return;
  }
  Member& member = *found;
  Track& track = tracks_[id];
  if (direct) member.heard = now_;
  if (config_.mutation.ignore_answers) return;
  if (direct) track.reset_seen = track.dial_asked = false;
  if (std::erase_if(probes_, [&](const auto& probe) { return probe.second.target == id; }) > 0)
    shift_health(-1);
  if (member.state != PeerHealth::suspect) return;
  track.suspicion.reset();
  rumors_.drop(id);
  set_state(member, PeerHealth::alive, "answered");
}

void Swim::set_dead(Member& member, std::string_view reason) {
  const NodeId id = member.record.id;
  set_state(member, PeerHealth::dead, reason);
  tell(member, false);  // with the observers, who are forgotten next
  tracks_[id].suspicion.reset();
  tracks_[id].dial_asked = false;
  std::erase_if(probes_, [&](const auto& probe) { return probe.second.target == id; });
}

void Swim::set_state(Member& member, PeerHealth state, std::string_view reason) {
  if (member.state != state || member.since == Time{}) member.since = now_;
  member.state = state;
  actions_.push_back(Changed{member.record, state, std::string(reason)});
}

// Declares a suspect dead if the evidence is complete; whether it did.
bool Swim::judge(Member& member) {
  Track& track = tracks_[member.record.id];
  if (member.state != PeerHealth::suspect || !track.suspicion) return false;
  Suspicion& suspicion = *track.suspicion;
  const NodeId& id = member.record.id;
  const Duration waited = now_ - suspicion.started;
  const Duration least = suspicion_minimum(config_, live_count(), health_);
  const bool seen_here = suspicion.observers.contains(self_.id);
  // Whoever was not among the few who looked at once (urge) looks in time for the verdict.
  if (!seen_here && (suspicion.called_dead || waited >= least / 2)) probe_next(id);
  const std::size_t refusals_wanted =
      live_count() >= 4 && confirmers(id) >= 1 && !suspicion.called_dead ? 2 : 1;
  if (suspicion.refused_by.contains(self_.id) && suspicion.refused_by.size() >= refusals_wanted) {
    set_dead(member, "connection refused");
    return true;
  }
  const std::size_t wanted = confirmers(id) >= 2 ? 2 : 1;
  // Who calls it dead has waited for it.
  const Duration allowed =
      suspicion.called_dead
          ? config_.suspicion_floor
          : suspicion_time(config_, live_count(), health_, suspicion.observers.size(), wanted);
  const bool alone = suspicion.observers.size() < wanted && !suspicion.called_dead;
  if (alone && now_ - std::max(suspicion.started, suspicion.asked) >= least) {
    // A single observer may only have a broken link of its own, or have missed what the others have
    // come to. Look again, ask again.
    suspicion.asked = now_;
    urge(id);
    tell(member, false);
  }
  if (!seen_here || alone || waited < allowed) return false;
  set_dead(member, suspicion.called_dead ? "others say so" : "silent");
  return true;
}

void Swim::take_connection(const NodeId& peer, LinkState state) {
  if (self_.left) {
    if (state == LinkState::up && goodbyes_.contains(peer)) say_goodbye(peer);
    return;
  }
  if (state == LinkState::up) {
    answered(peer, true);
    last_table_.erase(peer);  // what was sent before this session may not have arrived
  }
  Member* found = known(peer);
  if (!found) {
    if (state == LinkState::up && seeds_.contains(peer)) send_table(peer, true);
    return;
  }
  Member& member = *found;
  Track& track = tracks_[peer];
  const bool live = member.is_live();
  if (state == LinkState::up) {
    if (!live) send_table(peer, true);
  } else if (state == LinkState::reset) {
    track.reset_seen = true;
    if (!live) return;
    track.last_hint = Time{};
    hint_connect(member);
    urge(peer);
  } else if (live && !member.record.dial_only && (track.reset_seen || track.dial_asked)) {
    track.reset_seen = true;
    if (member.state == PeerHealth::alive) begin_suspicion(member, "connection refused");
    Suspicion& suspicion = suspicion_of(member);
    const bool fresh = suspicion.refused_by.insert(self_.id).second;
    suspicion.observers.insert(self_.id);
    if (judge(member)) return;
    if (fresh) tell(member, false);
    urge(peer);
  }
}

}  // namespace gpunode::membership
