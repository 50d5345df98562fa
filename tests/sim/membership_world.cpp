#include "tests/sim/membership_world.hpp"

#include "runtime/membership/membership_codec.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>

namespace gpunode::sim {

namespace {

using membership::MemberRecord;

// Signatures of the simulation: a digest keyed by the owner's id. Relays do not forge here.
Bytes sign_as(const NodeId& owner, ByteView message) {
  std::uint64_t key;
  std::memcpy(&key, owner.value.data(), sizeof key);
  const Digest digest = digest_of(message, key);
  return to_bytes(std::as_bytes(std::span(&digest, 1)));
}

bool verify_as(const NodeId& owner, ByteView message, ByteView signature) {
  const Bytes good = sign_as(owner, message);
  return signature.size() == good.size() &&
         std::memcmp(signature.data(), good.data(), good.size()) == 0;
}

directory::Hash hash(ByteView bytes) {
  directory::Hash out;
  const Digest first = digest_of(bytes, 1), second = digest_of(bytes, 2);
  std::memcpy(out.data(), &first, 16);
  std::memcpy(out.data() + 16, &second, 16);
  return out;
}

std::uint64_t serial_of(const Bytes& value) {
  std::uint64_t serial = 0;
  std::memcpy(&serial, value.data(), std::min(value.size(), sizeof serial));
  return serial;
}

std::string name(int index) {
  return "node" + std::to_string(index);
}

}  // namespace

void FaultCounts::add(const FaultCounts& other) {
  lost += other.lost;
  doubled += other.doubled;
  straggled += other.straggled;
  blocked += other.blocked;
  blocked_one_way += other.blocked_one_way;
  killed += other.killed;
  powered_off += other.powered_off;
  restarted += other.restarted;
  paused += other.paused;
  left += other.left;
  erased += other.erased;
  refused += other.refused;
  reset += other.reset;
  forged += other.forged;
}

std::vector<std::string> FaultCounts::never_struck() const {
  std::vector<std::string> missing;
  for (const auto& [count, text] : {std::pair(lost, "loss"),
                                    {doubled, "duplication"},
                                    {straggled, "reordering"},
                                    {blocked, "partition"},
                                    {blocked_one_way, "one-way partition"},
                                    {killed, "kill"},
                                    {powered_off, "power loss"},
                                    {restarted, "restart"},
                                    {paused, "pause"},
                                    {left, "leave"},
                                    {erased, "deletion"},
                                    {refused, "refused dial"},
                                    {reset, "reset of a good link"},
                                    {forged, "forged record"}})
    if (count == 0) missing.emplace_back(text);
  return missing;
}

World::World(WorldOptions options)
    : options_(options), rng_(mix(options.seed, 0x301d)), nodes_(options.nodes) {
  for (int i = 0; i < size(); ++i) index_of_[id_of(i)] = i;
}

NodeId World::id_of(int index) {
  NodeId id;
  for (int word = 0; word < 4; ++word) {
    const std::uint64_t value = mix(0x1d + index, word);
    std::memcpy(id.value.data() + 8 * word, &value, 8);
  }
  return id;
}

void World::at(Time time, std::function<void()> run) {
  events_.push({time, order_++, std::move(run)});
}

void World::on_node(int index, Boot boot, Time time, std::function<void()> event) {
  at(time, [this, index, boot, event = std::move(event)] {
    const Node& node = nodes_[index];
    if (!node.swim || node.boot != boot) return;
    if (node.paused_until > now_) return on_node(index, boot, node.paused_until, event);
    event();
  });
}

void World::start(int index, std::optional<int> through) {
  Node& node = nodes_[index];
  if (node.boot > 0) ++faults_.restarted;
  left_.erase(index);
  ++node.boot;
  node.host_up = true;
  node.paused_until = Time{};
  node.published.clear();
  node.heard.clear();
  node.incarnations.clear();
  node.serials.clear();
  MemberRecord self;
  self.id = id_of(index);
  self.name = name(index);
  self.incarnation.boot = node.boot;
  self.control_endpoints = {"sim://" + name(index)};
  std::memcpy(self.sign_key.data(), self.id.value.data(), self.sign_key.size());
  const NodeId id = self.id;
  membership::RecordSigning signing;
  signing.sign = [id](ByteView message) { return sign_as(id, message); };
  signing.verify = [](const NodeId& owner, const membership::PublicKey&, ByteView message,
                      ByteView signature) { return verify_as(owner, message, signature); };
  directory::DirectorySigning map_signing;
  map_signing.hash = hash;
  map_signing.sign = signing.sign;
  map_signing.verify = verify_as;
  const std::uint64_t seed = rng_.next();
  node.swim = std::make_unique<membership::Swim>(self, options_.swim, signing, seed, now_);
  node.map = std::make_unique<directory::Directory>(id, node.boot, options_.directory, map_signing,
                                                    seed, now_);
  if (through && up(*through)) node.known.push_back(nodes_[*through].swim->self());
  const Boot boot = node.boot;
  for (const MemberRecord& record : node.known) carry_out(index, node.swim->add_seed(now_, record));
  on_node(index, boot, now_ + Duration(rng_.below(50'000'000)), [=, this] { tick(index, boot); });
}

void World::tick(int index, Boot boot) {
  Node& node = nodes_[index];
  carry_out(index, node.swim->on_tick(now_));
  carry_out(index, node.map->on_tick(now_));
  on_node(index, boot, now_ + node.swim->tick_interval() + Duration(rng_.below(2'000'000)),
          [=, this] { tick(index, boot); });
}

void World::stop(int index) {
  Node& node = nodes_[index];
  node.known.clear();
  for (const auto& [id, member] : node.swim->members()) node.known.push_back(member.record);
  node.swim.reset();
  node.map.reset();
}

void World::kill(int index) {
  ++faults_.killed;
  stop(index);
  for (int peer = 0; peer < size(); ++peer)
    if (peer != index && up(peer) && !is_blocked(index, peer))
      connection(peer, index, LinkState::reset, options_.network.delay);
}

void World::power_off(int index) {
  ++faults_.powered_off;
  stop(index);
  nodes_[index].host_up = false;
}

void World::leave(int index) {
  ++faults_.left;
  carry_out(index, nodes_[index].swim->leave(now_));
  stop(index);
  left_.insert(index);
}

void World::pause(int index, Duration time) {
  ++faults_.paused;
  nodes_[index].paused_until = now_ + time;
}

void World::reset_link(int a, int b) {
  ++faults_.reset;
  connection(a, b, LinkState::reset, Duration::zero());
  connection(b, a, LinkState::reset, Duration::zero());
}

void World::forge(int liar, int about, int to) {
  const membership::Member* known = nodes_[liar].swim->find(id_of(about));
  if (!known || to == about) return;
  ++faults_.forged;
  membership::Message message;
  MemberRecord record = known->record;
  record.name = "forged";
  ++record.incarnation.counter;
  message.rumors.push_back(
      {PeerHealth::alive, record.id, record.incarnation, {}, {}, std::move(record)});
  transmit(liar, id_of(to), Channel::swim, membership::encode(message));
}

void World::connection(int index, int peer, LinkState state, Duration after) {
  on_node(index, nodes_[index].boot, now_ + after, [=, this] {
    if (state == LinkState::refused) ++faults_.refused;
    if (state == LinkState::up) nodes_[index].heard[peer] = now_;
    carry_out(index, nodes_[index].swim->on_connection(now_, id_of(peer), state));
  });
}

void World::dial(int index, int target) {
  if (is_blocked(index, target) || is_blocked(target, index)) return;
  if (!nodes_[target].host_up) return;
  if (up(target) && nodes_[target].paused_until > now_) return;
  connection(index, target, up(target) ? LinkState::up : LinkState::refused,
             2 * options_.network.delay);
}

bool World::is_blocked(int from, int to) const {
  const auto found = blocked_.find({from, to});
  return found != blocked_.end() && found->second;
}

void World::transmit(int from, const NodeId& to_id, Channel channel, Bytes bytes) {
  const auto found = index_of_.find(to_id);
  if (found == index_of_.end()) return;
  if (on_sent) on_sent(from, to_id, channel, bytes.size());
  const int to = found->second;
  if (!up(to)) return;
  if (is_blocked(from, to)) {
    ++(is_blocked(to, from) ? faults_.blocked : faults_.blocked_one_way);
    return;
  }
  if (rng_.chance(options_.network.loss)) {
    ++faults_.lost;
    return;
  }
  int copies = 1;
  if (rng_.chance(options_.network.duplicate)) {
    ++faults_.doubled;
    copies = 2;
  }
  const auto shared = std::make_shared<const Bytes>(std::move(bytes));
  for (int copy = 0; copy < copies; ++copy) {
    Duration delay = options_.network.delay + Duration(rng_.below(options_.network.delay.count()));
    if (rng_.chance(options_.network.straggle)) {
      ++faults_.straggled;
      delay += Duration(rng_.below(options_.network.straggle_time.count()));
    }
    on_node(to, nodes_[to].boot, now_ + delay, [=, this] { deliver(from, to, channel, *shared); });
  }
}

void World::deliver(int from, int to, Channel channel, const Bytes& bytes) {
  Node& node = nodes_[to];
  node.heard[from] = now_;
  if (channel == Channel::swim) {
    carry_out(to, node.swim->on_message(now_, id_of(from), bytes));
  } else {
    carry_out(to, node.swim->on_traffic(now_, id_of(from)));
    carry_out(to, node.map->on_message(now_, id_of(from), bytes));
  }
}

void World::carry_out(int index, membership::Actions actions) {
  for (membership::Action& action : actions) {
    if (auto* send = std::get_if<membership::Send>(&action))
      transmit(index, send->to, Channel::swim, std::move(send->bytes));
    else if (auto* changed = std::get_if<membership::Changed>(&action))
      on_changed(index, *changed);
    else if (auto* connect = std::get_if<membership::Connect>(&action))
      dial(index, index_of_.at(connect->record.id));
    else if (std::holds_alternative<membership::Conflict>(action))
      violation(name(index) + " sees its own identity elsewhere");
  }
}

void World::on_changed(int index, const membership::Changed& changed) {
  Node& node = nodes_[index];
  const int subject = index_of_.at(changed.record.id);
  if (std::getenv("GPUNODE_SIM_TRACE"))
    std::printf("%.4f %s: %s (%llu.%llu) is %s: %s; heard %.4f ago\n",
                std::chrono::duration<double>(now_ - Time{}).count() - 3600, name(index).c_str(),
                name(subject).c_str(),
                static_cast<unsigned long long>(changed.record.incarnation.boot),
                static_cast<unsigned long long>(changed.record.incarnation.counter),
                std::string(to_string(changed.state)).c_str(), changed.reason.c_str(),
                node.heard.contains(subject)
                    ? std::chrono::duration<double>(now_ - node.heard[subject]).count()
                    : -1.0);
  const auto newest = node.incarnations.find(subject);
  if (newest != node.incarnations.end() && changed.record.incarnation < newest->second)
    violation(name(index) + " goes back to an older incarnation of " + name(subject));
  node.incarnations[subject] = changed.record.incarnation;
  if (changed.record.name != name(subject))
    violation(name(index) + " believes a record of " + name(subject) + " that it never signed");
  if (changed.state == PeerHealth::dead) {
    ++dead_verdicts_;
    const bool same_life = up(subject) && nodes_[subject].boot == changed.record.incarnation.boot;
    const auto heard = node.heard.find(subject);
    if (same_life && heard != node.heard.end() &&
        now_ - heard->second < options_.swim.suspicion_floor)
      violation(name(index) + " calls " + name(subject) + " dead (" + changed.reason +
                ") though it answered within the window");
  }
  if (changed.state == PeerHealth::left && !left_.contains(subject) && up(subject) &&
      nodes_[subject].boot == changed.record.incarnation.boot)
    violation(name(index) + " says that " + name(subject) + " left, which it did not");
  const bool live = changed.state == PeerHealth::alive || changed.state == PeerHealth::suspect;
  if (live)
    carry_out(index, node.map->on_peer_up(now_, changed.record.id));
  else
    carry_out(index, node.map->on_peer_gone(now_, changed.record.id), true);
}

void World::carry_out(int index, directory::Actions actions, bool hiding) {
  Node& node = nodes_[index];
  for (directory::Action& action : actions) {
    if (auto* send = std::get_if<directory::Send>(&action)) {
      transmit(index, send->to, Channel::map, std::move(send->bytes));
      continue;
    }
    const auto& changed = std::get<directory::Changed>(action);
    const int owner = index_of_.at(changed.owner);
    std::uint64_t& newest = node.serials[{owner, changed.key}];
    if (changed.value) {
      const std::uint64_t serial = serial_of(*changed.value);
      if (serial < newest)
        violation(name(index) + " sees an old value of " + changed.key + " of " + name(owner) +
                  " come back");
      newest = std::max(newest, serial);
    } else if (!hiding) {
      newest = std::max(newest, newest + 1);  // only something written later may follow
    }
  }
}

void World::publish(int index, const std::string& key) {
  Bytes value(8 + rng_.below(200));
  serial_ += 2;
  std::memcpy(value.data(), &serial_, sizeof serial_);
  nodes_[index].published[key] = serial_;
  auto actions = nodes_[index].map->set(now_, key, value);
  if (!actions) return violation("set fails: " + actions.error().message());
  carry_out(index, std::move(*actions));
}

void World::withdraw(int index, const std::string& key) {
  if (nodes_[index].published.erase(key) == 0) return;
  ++faults_.erased;
  carry_out(index, nodes_[index].map->erase(now_, key));
}

void World::run(Duration time) {
  const Time end = now_ + time;
  while (!events_.empty() && events_.top().at <= end && violations_.empty()) {
    Event event = events_.top();
    events_.pop();
    now_ = event.at;
    event.run();
  }
  now_ = end;
}

std::optional<Duration> World::run_until(const std::function<bool()>& done, Duration limit) {
  const Time start = now_;
  while (!done()) {
    if (now_ - start >= limit) return std::nullopt;
    run(std::chrono::milliseconds(100));
  }
  return now_ - start;
}

std::optional<PeerHealth> World::view(int observer, int subject) const {
  const membership::Member* member = nodes_[observer].swim->find(id_of(subject));
  if (!member) return std::nullopt;
  return member->state;
}

std::string World::disagreement() const {
  for (int a = 0; a < size(); ++a) {
    if (!up(a)) continue;
    for (int b = 0; b < size(); ++b) {
      if (a == b) continue;
      const membership::Member* member = nodes_[a].swim->find(id_of(b));
      const std::string pair = name(a) + " sees " + name(b) + " ";
      if (!up(b)) {
        if (member && (member->state == PeerHealth::alive || member->state == PeerHealth::suspect))
          return pair + "alive, which is down";
        continue;
      }
      if (!member) return pair + "not at all";
      if (member->state != PeerHealth::alive) return pair + std::string(to_string(member->state));
      if (member->record != nodes_[b].swim->self()) return pair + "in an old record";
    }
  }
  for (int a = 0; a < size(); ++a) {
    if (!up(a)) continue;
    std::map<int, std::map<std::string, std::uint64_t>> seen;
    for (const directory::Entry& entry : nodes_[a].map->scan(""))
      seen[index_of_.at(entry.owner)][entry.key] = serial_of(entry.value);
    for (int b = 0; b < size(); ++b)
      if (up(b) && seen[b] != nodes_[b].published)
        return name(a) + " holds another map of " + name(b) + " than it published";
  }
  return {};
}

bool World::members_agree() const {
  const std::string text = disagreement();
  return text.empty() || text.find("map of") != std::string::npos;
}

bool World::maps_agree() const {
  return disagreement().empty();
}

void World::violation(std::string text) {
  const double seconds =
      std::chrono::duration<double>(now_ - (Time{} + std::chrono::hours(1))).count();
  if (violations_.size() < 20)
    violations_.push_back("at " + std::to_string(seconds) + " s: " + std::move(text));
}

}  // namespace gpunode::sim
