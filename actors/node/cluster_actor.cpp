#include "actors/node/cluster_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "actors/mailbox.hpp"
#include "actors/node/router.hpp"
#include "runtime/base/log.hpp"
#include "runtime/membership/member_names.hpp"
#include "runtime/membership/membership_codec.hpp"

namespace gpunode::node {
namespace {

constexpr auto kLookEvery = std::chrono::seconds(2);
constexpr auto kSlowHearers = std::chrono::milliseconds(150);

struct State {
  static inline const char* name = "cluster";
  ClusterActorOptions options;
  std::optional<membership::Swim> swim;
  std::optional<directory::Directory> directory;
  std::vector<caf::actor> subscribers;
  std::map<NodeId, Admitted> admitted;
  std::set<NodeId> link_peers;  // told to the link
  bool snapshot_stale = true;
  bool who_is_stale = false;  // in it: who lives
  bool peers_stale = false;
  Time next_tick{};  // a tick that comes before is of a slower pace, and not minded
  Time peers_stored{};
  Time next_directory_tick{};
  Time next_look{};  // at the machine's addresses, and at whose time is over
  std::optional<Leave> leaving;
  Time leaving_since{};
};
using Self = caf::stateful_actor<State>;

Time now(Self* self) {
  return self->state.options.clock->now();
}

void set_peer(Self* self, transport::PeerAddress address) {
  const auto admitted = self->state.admitted.find(address.node);
  if (admitted == self->state.admitted.end()) return;  // it was put out since
  if (self->state.options.offenders->is_put_off(address.node)) return;
  address.curve_public_key = admitted->second.curve_key;
  self->state.link_peers.insert(address.node);
  self->state.options.link->set_peer(std::move(address));
}

void set_peer(Self* self, const membership::MemberRecord& record) {
  const bool dialled = !record.dial_only;
  const std::vector<std::string> none;
  set_peer(self, transport::PeerAddress{record.id,
                                        record.incarnation.boot,
                                        dialled ? record.control_endpoints : none,
                                        dialled ? record.bulk_endpoints : none,
                                        {}});
}

// By its record, if that is known; else it can open a session, and its record comes by that.
void reach(Self* self, const NodeId& node) {
  if (const membership::Member* member = self->state.swim->find(node))
    set_peer(self, member->record);
  else
    set_peer(self, transport::PeerAddress{node, 0, {}, {}, {}});
}

void send_datagram(Self* self, const NodeId& to, transport::Topic topic, Bytes bytes) {
  transport::Message message{topic, 0, std::move(bytes), {}};
  (void)self->state.options.link->send(to, transport::Lane::control, std::move(message));
}

void carry_out(Self* self, directory::Actions actions) {
  for (directory::Action& action : actions) {
    if (auto* send = std::get_if<directory::Send>(&action))
      send_datagram(self, send->to, transport::Topic::directory, std::move(send->bytes));
    else
      self->state.snapshot_stale = true;
  }
}

void on_changed(Self* self, const membership::Changed& changed) {
  State& state = self->state;
  const membership::MemberRecord& record = changed.record;
  const std::string news = changed.state == PeerHealth::left
                               ? "has left"
                               : "is " + std::string(to_string(changed.state)) +
                                     (changed.reason.empty() ? "" : ": " + changed.reason);
  log::info("cluster", record.name + " (" + record.id.short_text() + ") " + news);
  state.snapshot_stale = state.who_is_stale = state.peers_stale = true;
  if (changed.state == PeerHealth::alive) {
    set_peer(self, record);
    carry_out(self, state.directory->on_peer_up(now(self), record.id));
  } else if (changed.state != PeerHealth::suspect) {
    carry_out(self, state.directory->on_peer_gone(now(self), record.id));
  }
  for (const caf::actor& subscriber : state.subscribers)
    self->send(subscriber,
               PeerChanged{record.id, record.incarnation.boot, changed.state, changed.reason});
}

void tick_next(Self* self) {
  const Duration pause = self->state.swim->tick_interval();
  self->state.next_tick = now(self) + pause;
  self->delayed_send(self, pause, Tick{});
}

void carry_out(Self* self, membership::Actions actions) {
  for (membership::Action& action : actions) {
    if (auto* send = std::get_if<membership::Send>(&action)) {
      send_datagram(self, send->to, transport::Topic::membership, std::move(send->bytes));
    } else if (auto* changed = std::get_if<membership::Changed>(&action)) {
      on_changed(self, *changed);
    } else if (auto* connect = std::get_if<membership::Connect>(&action)) {
      set_peer(self, connect->record);
    } else if (auto* forget = std::get_if<membership::Forget>(&action)) {
      self->state.link_peers.erase(forget->id);
      self->state.options.link->drop_peer(forget->id);
    } else if (auto* conflict = std::get_if<membership::Conflict>(&action)) {
      log::error("cluster", "another process uses this node's identity (boot " +
                                std::to_string(conflict->other.incarnation.boot) +
                                "): its state directory was copied; stop one of the two");
    }
  }
  // Where the first other has come, what is told to it does not wait for the pace of one alone.
  if (self->state.next_tick > now(self) + self->state.swim->tick_interval()) tick_next(self);
}

void put_out(Self* self, const NodeId& node) {
  State& state = self->state;
  state.admitted.erase(node);
  if (node == state.options.self.id)
    return log::error(
        "cluster",
        "this node was put out of the cluster: the others have closed their links to it");
  carry_out(self, state.swim->expel(now(self), node));
  state.link_peers.erase(node);
  state.options.link->drop_peer(node);
}

// Whoever may be here can open a session, though its record has not come yet; whoever may not any
// more is gone with its sessions; a new key counts for the next session.
void on_standing(Self* self, const NodeId& node, const std::optional<Admitted>& is) {
  State& state = self->state;
  const auto found = state.admitted.find(node);
  const bool was = found != state.admitted.end();
  if (is ? was && found->second == *is : !was) return;
  const membership::Member* member = state.swim->find(node);
  state.snapshot_stale |= member || node == state.options.self.id;
  if (!is) return put_out(self, node);
  const bool new_key = !was || found->second.curve_key != is->curve_key;
  state.admitted[node] = *is;
  if (!new_key || node == state.options.self.id) return;
  reach(self, node);
}

// Where nobody is named, at all: some may have expired, or count for what another said.
void on_admissions(Self* self, const std::vector<NodeId>& nodes = {}) {
  const State& state = self->state;
  for (const NodeId& node : nodes) on_standing(self, node, state.options.admitted_as(node));
  if (!nodes.empty()) return;
  const std::map<NodeId, Admitted> all = state.options.admitted();
  std::vector<NodeId> out;
  for (const auto& [node, _] : state.admitted)
    if (!all.contains(node)) out.push_back(node);
  for (const NodeId& node : out) on_standing(self, node, std::nullopt);
  for (const auto& [node, is] : all) on_standing(self, node, is);
}

void write_snapshot(Self* self) {
  State& state = self->state;
  state.snapshot_stale = false;
  state.who_is_stale = false;
  std::vector<membership::MemberRecord> records{state.swim->self()};
  for (const auto& [id, member] : state.swim->members()) records.push_back(member.record);
  auto names = membership::display_names(records);
  ClusterSnapshot snapshot;
  snapshot.self = state.swim->self().id;
  for (const membership::MemberRecord& record : records) {
    NodeInfo info{record.id,
                  record.incarnation.boot,
                  names[record.id],
                  PeerHealth::alive,
                  record.labels,
                  record.control_endpoints,
                  record.join_endpoints,
                  record.id == snapshot.self,
                  {},
                  0};
    const auto admitted = state.admitted.find(record.id);
    if (admitted != state.admitted.end()) info.rights = admitted->second.rights;
    if (const auto* member = state.swim->find(record.id)) {
      info.health = member->state;
      info.since = member->since;
    }
    if (info.lives()) snapshot.records.push_back(membership::encode_record(record));
    snapshot.nodes.push_back(std::move(info));
  }
  std::sort(snapshot.nodes.begin(), snapshot.nodes.end(),
            [](const NodeInfo& a, const NodeInfo& b) { return a.id < b.id; });
  for (directory::Entry& entry : state.directory->scan(""))
    snapshot.entries.push_back({entry.owner, std::move(entry.key), std::move(entry.value)});
  state.options.state->write(std::move(snapshot));
}

// Whom the next start dials. `ends`: who came in a moment ago would be forgotten else, and whoever
// has heard of this node's farewell does not dial it.
void store_peers(Self* self, bool ends = false) {
  State& state = self->state;
  const bool early = now(self) < state.peers_stored + std::chrono::seconds(1);
  if (!state.peers_stale || (early && !ends)) return;
  state.peers_stale = false;
  state.peers_stored = now(self);
  std::vector<membership::MemberRecord> records;
  const auto& members = state.swim->members();
  for (const auto& [id, member] : members)
    if (member.state != PeerHealth::left) records.push_back(member.record);
  // Those that were not met yet in this life, too: it may end before they are.
  for (const membership::MemberRecord& seed : state.options.seeds)
    if (!members.contains(seed.id)) records.push_back(seed);
  state.options.store_peers(records);
}

// Whoever has answered tells the others; those that are slow are waited for a little.
void leave_if_heard(Self* self) {
  State& state = self->state;
  if (!state.leaving) return;
  const Duration waited = now(self) - state.leaving_since;
  const bool over = waited >= state.leaving->timeout;
  const bool heard = state.swim->goodbye_heard();
  if (!over && !state.swim->all_heard_goodbye() && !(heard && waited >= kSlowHearers)) return;
  if (state.leaving->left) (*state.leaving->left)(heard);
  self->quit();
}

void on_leave(Self* self, const Leave& leave) {
  State& state = self->state;
  if (state.leaving) return;
  store_peers(self, true);
  state.leaving = leave;
  state.leaving_since = now(self);
  carry_out(self, state.swim->leave(now(self)));
  leave_if_heard(self);
}

void tell_caught_up(Self* self) {
  State& state = self->state;
  if (!state.options.on_caught_up || !state.directory->has_caught_up()) return;
  if (state.snapshot_stale) write_snapshot(self);
  std::exchange(state.options.on_caught_up, nullptr)();
}

// Who came or went is seen and stored at once, the rest of what is new at the next tick.
void show_news(Self* self) {
  if (self->state.who_is_stale) write_snapshot(self);
  store_peers(self);
}

void on_net(Self* self, const NetMessage& net) {
  State& state = self->state;
  ByteView body = net.message->body;
  const auto malformed = [&] {
    return state.swim->malformed_messages() + state.directory->malformed_messages();
  };
  const std::uint64_t forged_before = state.swim->forged_messages(), before = malformed();
  if (net.message->topic == transport::Topic::membership)
    carry_out(self, state.swim->on_message(now(self), net.from, body));
  else if (net.message->topic == transport::Topic::directory)
    carry_out(self, state.directory->on_message(now(self), net.from, body));
  if (state.swim->forged_messages() != forged_before)
    state.options.offenders->offended(net.from, security::Offenders::kForged);
  if (malformed() != before)
    state.options.offenders->offended(net.from, security::Offenders::kMalformed);
  show_news(self);
  tell_caught_up(self);
  leave_if_heard(self);
}

void on_link(Self* self, const LinkChanged& link) {
  State& state = self->state;
  if (link.lane == transport::Lane::control)
    carry_out(self, state.swim->on_connection(now(self), link.peer, link.state));
  show_news(self);
  for (const caf::actor& subscriber : state.subscribers) self->send(subscriber, link);
}

// Their links are closed, and none is opened until their pause is over.
void put_off_offenders(Self* self) {
  State& state = self->state;
  const security::Offenders::News news = state.options.offenders->take_news();
  for (const auto& [node, pause] : news.put_off) {
    if (!state.link_peers.contains(node)) continue;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(pause).count();
    const membership::Member* member = state.swim->find(node);
    log::warning("cluster",
                 (member ? member->record.name + " (" : "(") + node.short_text() +
                     ") forges, floods or sends what cannot be read: its links are closed for " +
                     std::to_string(seconds) + " s");
    state.options.refusals->add(node,
                                "its links, as it forges, floods or sends what cannot be read");
    state.options.link->drop_peer(node);
    for (const transport::Lane lane : {transport::Lane::control, transport::Lane::bulk})
      on_link(self, {node, lane, LinkState::reset});
  }
  for (const NodeId& node : news.heard_again) {
    if (state.link_peers.contains(node)) reach(self, node);
  }
}

std::string list_of(const std::vector<std::string>& endpoints) {
  std::string list;
  for (const std::string& one : endpoints) list += (list.empty() ? "" : ", ") + one;
  return list;
}

// The others dial the new address from now on; sessions that there are stay as they are.
void look_at_addresses(Self* self) {
  State& state = self->state;
  if (!state.options.look_at_addresses) return;
  auto changed = state.options.look_at_addresses();
  if (!changed) return;
  membership::MemberRecord record = state.swim->self();
  log::info("cluster", "this node is now reached at " + list_of(changed->control) + "; it was at " +
                           list_of(record.control_endpoints));
  record.control_endpoints = std::move(changed->control);
  record.bulk_endpoints = std::move(changed->bulk);
  record.join_endpoints = std::move(changed->join);
  carry_out(self, state.swim->announce(now(self), record));
  state.snapshot_stale = true;
}

void on_tick(Self* self) {
  State& state = self->state;
  constexpr Duration kEarly = std::chrono::milliseconds(1);  // timers may be
  if (now(self) + kEarly < state.next_tick) return;
  state.next_tick = {};
  put_off_offenders(self);
  carry_out(self, state.swim->on_tick(now(self)));
  tick_next(self);
  if (state.leaving) return leave_if_heard(self);
  if (now(self) >= state.next_directory_tick) {
    state.next_directory_tick = now(self) + std::chrono::milliseconds(200);
    carry_out(self, state.directory->on_tick(now(self)));
  }
  store_peers(self);
  if (now(self) >= state.next_look) {
    state.next_look = now(self) + kLookEvery;
    on_admissions(self);
    look_at_addresses(self);
  }
  if (state.snapshot_stale) write_snapshot(self);
  tell_caught_up(self);
}

void on_set(Self* self, const SetEntry& entry) {
  State& state = self->state;
  if (!entry.value) return carry_out(self, state.directory->erase(now(self), entry.key));
  auto actions = state.directory->set(now(self), entry.key, *entry.value);
  if (!actions)
    return log::warning("cluster", "directory: " + entry.key + ": " + actions.error().message());
  carry_out(self, std::move(*actions));
  if (state.snapshot_stale) write_snapshot(self);
}

void on_subscribe(Self* self, const Subscribe& order) {
  self->state.subscribers.push_back(order.subscriber);
  for (const auto& [id, member] : self->state.swim->members())
    self->send(order.subscriber,
               PeerChanged{id, member.record.incarnation.boot, member.state, "known"});
}

void begin(Self* self) {
  on_admissions(self);
  for (const membership::MemberRecord& seed : self->state.options.seeds)
    carry_out(self, self->state.swim->add_seed(now(self), seed));
}

caf::behavior behaviour(Self* self, std::shared_ptr<ClusterActorOptions> options) {
  State& state = self->state;
  state.options = std::move(*options);
  expect_known_messages(self);
  ClusterActorOptions& o = state.options;
  Boot boot = o.self.incarnation.boot;
  NodeId id = o.self.id;
  state.swim.emplace(o.self, o.swim, o.record_signing, o.seed, now(self));
  state.directory.emplace(id, boot, directory::DirectoryConfig{}, o.directory_signing, o.seed + 1,
                          now(self));
  write_snapshot(self);
  tick_next(self);
  return {
      [self](const NetMessage& net) { on_net(self, net); },
      [self](const LinkChanged& link) { on_link(self, link); },
      [self](const Heard& heard) {
        carry_out(self, self->state.swim->on_traffic(now(self), heard.peer));
      },
      [self](const Tick&) { on_tick(self); },
      [self](const SetEntry& entry) { on_set(self, entry); },
      [self](const Begin&) { begin(self); },
      [self](const AdmissionsChanged& changed) { on_admissions(self, changed.nodes); },
      [self](const Subscribe& order) { on_subscribe(self, order); },
      [self](const Leave& leave) { on_leave(self, leave); },
  };
}

}  // namespace

caf::actor spawn_cluster(caf::actor_system& system, ClusterActorOptions options) {
  return system.spawn(behaviour, std::make_shared<ClusterActorOptions>(std::move(options)));
}

}  // namespace gpunode::node
