#include "runtime/directory/directory.hpp"

#include <algorithm>

namespace gpunode::directory {
namespace {

// So many of a message's updates are looked at that cannot be verified, their owners not being live.
constexpr std::size_t kMostUnknown = 16;
// What follows on a gap comes with the answer to the first request for it.
constexpr Duration kAskPause = std::chrono::milliseconds(200);

}  // namespace

bool Directory::newer(const Position& a, const Position& b) const {
  if (config_.mutation.ignore_epoch) return a.version > b.version;
  return std::pair(a.epoch, a.version) > std::pair(b.epoch, b.version);
}

bool Directory::is_forgotten(const NodeId& owner, Boot epoch) const {
  const auto found = forgotten_.find(owner);
  return found != forgotten_.end() && epoch <= found->second;
}

Directory::Directory(NodeId self, Boot epoch, DirectoryConfig config, DirectorySigning signing,
                     std::uint64_t seed, Time now)
    : self_(self),
      config_(config),
      signing_(std::move(signing)),
      rng_(mix(seed, 0xd1)),
      next_round_(now + config.round) {
  own_.epoch = epoch;
  seal_own();
}

// Each change of the own keyspace, a collection too, is one version: copies are totally ordered.
void Directory::seal_own() {
  ++own_.version;
  own_.root = root_of(own_, signing_);
  own_.signature = signing_.sign(signed_bytes(self_, own_));
}

Result<Actions> Directory::set(Time, std::string_view key, ByteView value) {
  if (key.empty() || key.size() > kMaxKeyBytes || value.size() > kMaxValueBytes)
    return {ErrorCode::invalid_argument, "directory key '" + std::string(key.substr(0, 64)) +
                                             "': a key has 1 to " + std::to_string(kMaxKeyBytes) +
                                             " bytes and a value up to " +
                                             std::to_string(kMaxValueBytes)};
  const Keyspace::Value* old = own_.live(key);
  if (old && std::ranges::equal(old->value, value)) return Actions{};
  const std::size_t bytes =
      own_.live_bytes() + value.size() - (old ? old->value.size() : 0) + (old ? 0 : key.size());
  if ((!old && own_.live_keys() >= kMaxKeysPerOwner) || bytes > kMaxBytesPerOwner)
    return {ErrorCode::resource_exhausted,
            "this node's part of the directory is full: withdraw something first"};
  const auto previous = own_.items.find(key);
  if (previous != own_.items.end()) own_tombstones_.erase(previous->second.version);
  own_.items[std::string(key)] = {to_bytes(value), own_.version + 1, false};
  seal_own();
  actions_.push_back(Changed{self_, std::string(key), to_bytes(value)});
  push_own();
  return take();
}

Actions Directory::erase(Time now, std::string_view key) {
  if (!own_.live(key)) return {};
  if (config_.mutation.forget_tombstones) {
    own_.items.erase(own_.items.find(key));
  } else {
    own_.items[std::string(key)] = {{}, own_.version + 1, true};
    own_tombstones_[own_.version + 1] = now;
    if (own_tombstones_.size() > kMaxKeysPerOwner) {
      own_.collect(own_tombstones_.begin()->first);
      own_tombstones_.erase(own_tombstones_.begin());
    }
  }
  seal_own();
  actions_.push_back(Changed{self_, std::string(key), std::nullopt});
  push_own();
  return take();
}

void Directory::push_own() {
  std::vector<NodeId> targets(live_.begin(), live_.end());
  const std::size_t count = std::min(config_.push_fanout, targets.size());
  for (std::size_t i = 0; i < count; ++i)
    std::swap(targets[i], targets[i + rng_.below(targets.size() - i)]);
  targets.resize(count);
  const Message message{
      .kind = MessageKind::deltas,
      .deltas = cut_deltas(self_, own_, own_.version - 1, config_.max_message_bytes, 1)};
  for (const NodeId& to : targets) send(to, message);
}

void Directory::collect_own(Time now) {
  std::uint64_t upto = 0;
  while (!own_tombstones_.empty() &&
         now - own_tombstones_.begin()->second >= config_.tombstone_grace) {
    upto = own_tombstones_.begin()->first;
    own_tombstones_.erase(own_tombstones_.begin());
  }
  if (upto == 0) return;
  own_.collect(upto);
  seal_own();
  push_own();
}

void Directory::drop_gone(Time now) {
  if (forgotten_.size() > config_.max_owners) forgotten_.clear();
  std::erase_if(others_, [&](const auto& each) {
    const Held& held = each.second;
    if (!held.gone_since || now - *held.gone_since < config_.gone_grace) return false;
    forgotten_[each.first] = held.complete.epoch;
    return true;
  });
}

Actions Directory::on_tick(Time now) {
  if (now < next_round_) return {};
  next_round_ = now + config_.round;
  collect_own(now);
  drop_gone(now);
  if (!live_.empty()) {
    const auto target = static_cast<std::ptrdiff_t>(rng_.below(live_.size()));
    send(*std::next(live_.begin(), target), {MessageKind::root, root()});
  }
  return take();
}

Actions Directory::on_message(Time now, const NodeId& from, ByteView bytes) {
  auto message = decode(bytes);
  if (!message) {
    ++rejected_;
    ++malformed_;
    return {};
  }
  switch (message->kind) {
    case MessageKind::root:
      if (message->root != root())
        send(from, {MessageKind::summary, {}, positions()});
      else
        caught_up_ = true;
      break;
    case MessageKind::summary:
      on_summary(from, *message);
      break;
    case MessageKind::request:
      send_deltas(from, message->positions);
      break;
    case MessageKind::deltas:
      on_deltas(now, from, message->deltas);
      break;
  }
  return take();
}

// The other side's positions: ask for what is newer there, send what is newer here.
void Directory::on_summary(const NodeId& from, const Message& message) {
  std::map<NodeId, Position> theirs;
  for (const Position& each : message.positions) theirs[each.owner] = each;
  Message wanted{MessageKind::request};
  for (const auto& [owner, position] : theirs) {
    if (owner == self_ || !newer(position, position_of(owner))) continue;
    if (is_forgotten(owner, position.epoch)) continue;
    wanted.positions.push_back(reached(position));
  }
  if (!wanted.positions.empty()) send(from, wanted);
  if (!caught_up_) {
    awaited_.clear();
    for (const Position& each : wanted.positions) awaited_.push_back(theirs[each.owner]);
    note_caught_up();
  }

  std::vector<Position> lacking;
  for (const Position& mine : positions()) {
    const auto found = theirs.find(mine.owner);
    if (found == theirs.end())
      lacking.push_back({mine.owner, 0, 0});
    else if (newer(mine, found->second))
      lacking.push_back(found->second);
  }
  send_deltas(from, lacking);
}

void Directory::note_caught_up() {
  std::erase_if(awaited_,
                [this](const Position& each) { return !newer(each, position_of(each.owner)); });
  caught_up_ = caught_up_ || awaited_.empty();
}

// Sends what the other side lacks beyond each position, small gaps first, within the round's bound.
void Directory::send_deltas(const NodeId& to, const std::vector<Position>& wanted) {
  std::vector<std::pair<std::uint64_t, Position>> order;
  for (const Position& position : wanted) {
    const Keyspace* keyspace = find(position.owner);
    if (!keyspace || !newer({position.owner, keyspace->epoch, keyspace->version}, position))
      continue;
    const bool same_life = keyspace->epoch == position.epoch;
    order.emplace_back(keyspace->version - (same_life ? position.version : 0),
                       Position{position.owner, keyspace->epoch, same_life ? position.version : 0});
  }
  std::ranges::stable_sort(order, {}, [](const auto& each) { return each.first; });
  Message message{MessageKind::deltas};
  std::size_t bytes = 0, messages = 0;
  for (const auto& [gap, position] : order) {
    for (Delta& delta : cut_deltas(position.owner, *find(position.owner), position.version,
                                   config_.max_message_bytes, config_.max_messages_per_round)) {
      const std::size_t size = wire_estimate(delta);
      if (!message.deltas.empty() &&
          (bytes + size > config_.max_message_bytes || message.deltas.size() >= kMaxDeltas)) {
        send(to, message);
        message.deltas.clear();
        bytes = 0;
        if (++messages >= config_.max_messages_per_round) return;
      }
      bytes += size;
      message.deltas.push_back(std::move(delta));
    }
  }
  if (!message.deltas.empty()) send(to, message);
}

// Ends at what no honest node sends. Honest nodes do pass on what owners have signed whose keys are
// not known here, not yet or not any more: no live one's.
void Directory::on_deltas(Time now, const NodeId& from, const std::vector<Delta>& deltas) {
  const bool was_awaiting = !awaited_.empty();
  bool offends = false;
  std::size_t unknown = 0;
  for (const Delta& delta : deltas) {
    if (unknown >= kMostUnknown && !live_.contains(delta.owner)) continue;
    const Verdict verdict = on_delta(now, from, delta);
    if (verdict == Verdict::unknown) {  // of one that was put out: nothing of it will ever be good
      ++unknown;
      std::erase_if(awaited_, [&](const Position& each) { return each.owner == delta.owner; });
    }
    offends |= verdict == Verdict::too_often || verdict == Verdict::offence;
    if (verdict == Verdict::offence) break;
  }
  malformed_ += offends;
  if (was_awaiting) note_caught_up();
}

// The signature comes first: before it nothing is kept, and nothing larger is looked at.
Directory::Verdict Directory::on_delta(Time now, const NodeId& from, const Delta& delta) {
  const Position theirs{delta.owner, delta.epoch, delta.version};
  if (delta.owner == self_ || !newer(theirs, position_of(delta.owner)) ||
      is_forgotten(delta.owner, delta.epoch))
    return Verdict::settled;
  if (!signing_.verify(delta.owner, signed_bytes(delta), delta.signature)) {
    ++rejected_;
    return live_.contains(delta.owner) ? Verdict::offence : Verdict::unknown;
  }
  auto found = others_.find(delta.owner);
  if (found == others_.end()) {
    if (others_.size() >= config_.max_owners) {
      ++rejected_;
      return Verdict::settled;
    }
    found = others_.emplace(delta.owner, Held{}).first;
    if (!live_.contains(delta.owner)) found->second.gone_since = now;
  }
  return add(now, from, delta, found->second);
}

// What the delta can be added to: nothing, what is complete, or what is on its way in, which may be
// a liar's.
Directory::Base Directory::base_of(const Held& held, const NodeId& from, const Delta& delta) {
  if (delta.since == 0) return Base::nothing;
  const auto reaches = [&](const Keyspace& keyspace) {
    return keyspace.epoch == delta.epoch && keyspace.version >= delta.since;
  };
  const bool trusted = !held.doubted || from == delta.owner;
  if (trusted && reaches(held.complete)) return Base::complete;
  return held.partial && reaches(held.partial->keyspace) ? Base::partial : Base::gap;
}

bool Directory::may_begin(Time now, Time& spent) const {
  if (spent - now >= config_.work_pause * config_.work_burst) return false;
  spent = std::max(spent, now) + config_.work_pause;
  return true;
}

// Only what begins anew counts: it is copied once, and hashed once at the most.
Directory::Verdict Directory::add(Time now, const NodeId& from, const Delta& delta, Held& held) {
  const Base base = base_of(held, from, delta);
  if (base == Base::gap) {
    Time& asked = from == delta.owner ? held.asked_owner : held.asked_others;
    if (asked != Time{} && now - asked < kAskPause) return Verdict::settled;
    asked = now;
    send(from, {MessageKind::request, {}, {reached({delta.owner, delta.epoch, delta.version})}});
    return Verdict::settled;
  }
  Partial candidate;
  if (base == Base::partial) {
    candidate = std::move(*held.partial);
    candidate.mixed |= candidate.from != from || candidate.version != delta.version;
  } else {
    const bool by_owner = from == delta.owner;
    if (!may_begin(now, by_owner ? held.owner_spent : held.others_spent))
      return by_owner ? Verdict::settled : Verdict::too_often;  // an owner may be in a hurry
    candidate.from = from;
    candidate.version = delta.version;
    candidate.whole = base == Base::nothing;
    if (!candidate.whole) candidate.keyspace = held.complete;
  }
  held.partial.reset();
  if (!add_delta(candidate.keyspace, delta)) return refuse(delta, held, candidate);
  if (delta.upto == delta.version) return complete(delta, held, std::move(candidate));
  held.partial = std::move(candidate);
  return Verdict::settled;
}

Directory::Verdict Directory::complete(const Delta& delta, Held& held, Partial candidate) {
  Keyspace& keyspace = candidate.keyspace;
  if (keyspace.version != delta.version || keyspace.collected != delta.collected ||
      !within_bounds(keyspace) || root_of(keyspace, signing_) != delta.root)
    return refuse(delta, held, candidate);
  keyspace.root = delta.root;
  keyspace.signature = delta.signature;
  if (!held.gone_since) show(delta.owner, held.complete, keyspace);
  held.complete = std::move(keyspace);
  held.doubted = false;
  return Verdict::settled;
}

// It is not what its owner has signed; a later round asks again. Who gave all of it has altered it,
// unless the fault may lie in what it was added to.
Directory::Verdict Directory::refuse(const Delta& delta, Held& held, const Partial& candidate) {
  ++rejected_;
  if (candidate.mixed) return Verdict::settled;
  if (candidate.whole || candidate.from == delta.owner) return Verdict::offence;
  held.doubted = true;
  return Verdict::settled;
}

// Reports the difference between two contents of a visible keyspace.
void Directory::show(const NodeId& owner, const Keyspace& before, const Keyspace& after) {
  for (const auto& [key, value] : before.items)
    if (!value.tombstone && !after.live(key)) actions_.push_back(Changed{owner, key, std::nullopt});
  for (const auto& [key, value] : after.items) {
    if (value.tombstone) continue;
    const Keyspace::Value* old = before.live(key);
    if (!old || old->value != value.value) actions_.push_back(Changed{owner, key, value.value});
  }
}

Actions Directory::on_peer_up(Time, const NodeId& peer) {
  if (peer == self_) return {};
  live_.insert(peer);
  forgotten_.erase(peer);
  send(peer, {MessageKind::root, root()});
  const auto found = others_.find(peer);
  if (found == others_.end() || !found->second.gone_since) return take();
  found->second.gone_since.reset();
  show(peer, Keyspace{}, found->second.complete);
  return take();
}

Actions Directory::on_peer_gone(Time now, const NodeId& peer) {
  live_.erase(peer);
  const auto found = others_.find(peer);
  if (found == others_.end() || found->second.gone_since) return {};
  found->second.gone_since = now;
  show(peer, found->second.complete, Keyspace{});
  return take();
}

const Keyspace* Directory::find(const NodeId& owner) const {
  if (owner == self_) return &own_;
  const auto found = others_.find(owner);
  const bool held = found != others_.end() && found->second.complete.version != 0;
  return held ? &found->second.complete : nullptr;
}

Position Directory::position_of(const NodeId& owner) const {
  const Keyspace* keyspace = find(owner);
  if (!keyspace) return {owner, 0, 0};
  return {owner, keyspace->epoch, keyspace->version};
}

// From where to ask on for what the other side holds. What is on its way in counts only if it
// leads there: it is not verified yet, and a liar's must not stop us from asking others.
Position Directory::reached(const Position& theirs) const {
  const auto found = others_.find(theirs.owner);
  if (found == others_.end()) return {theirs.owner, 0, 0};
  const Held& held = found->second;
  if (held.partial && held.partial->keyspace.epoch == theirs.epoch &&
      held.partial->keyspace.version < theirs.version)
    return {theirs.owner, theirs.epoch, held.partial->keyspace.version};
  return held.doubted ? Position{theirs.owner, 0, 0} : position_of(theirs.owner);
}

std::vector<Position> Directory::positions() const {
  std::vector<Position> all{{self_, own_.epoch, own_.version}};
  for (const auto& [owner, held] : others_)
    if (held.complete.version != 0 && all.size() < kMaxPositions)
      all.push_back({owner, held.complete.epoch, held.complete.version});
  return all;
}

void Directory::send(const NodeId& to, const Message& message) {
  actions_.push_back(Send{to, encode(message)});
}

std::optional<Bytes> Directory::get(const NodeId& owner, std::string_view key) const {
  const Keyspace* keyspace = find(owner);
  if (!keyspace || (owner != self_ && others_.at(owner).gone_since)) return std::nullopt;
  const Keyspace::Value* value = keyspace->live(key);
  if (!value) return std::nullopt;
  return value->value;
}

std::vector<Entry> Directory::scan(std::string_view prefix) const {
  std::vector<Entry> found;
  const auto add = [&](const NodeId& owner, const Keyspace& keyspace) {
    for (auto each = keyspace.items.lower_bound(prefix);
         each != keyspace.items.end() && each->first.starts_with(prefix); ++each)
      if (!each->second.tombstone)
        found.push_back({owner, each->first, each->second.value, each->second.version});
  };
  add(self_, own_);
  for (const auto& [owner, held] : others_)
    if (!held.gone_since) add(owner, held.complete);
  std::ranges::stable_sort(found, {}, &Entry::owner);
  return found;
}

Hash Directory::root() const {
  std::vector<Position> all = positions();
  std::ranges::sort(all, {}, &Position::owner);
  Bytes bytes;
  for (const Position& each : all) {
    bytes.insert(bytes.end(), each.owner.value.begin(), each.owner.value.end());
    append_number(bytes, each.epoch);
    append_number(bytes, each.version);
  }
  return signing_.hash(bytes);
}

}  // namespace gpunode::directory
