#include "runtime/job/peers.hpp"

#include <algorithm>

namespace gpunode::job {

namespace {
// A message that was under way when its sender died must not bring it back to life.
constexpr Duration kVerdictHolds = std::chrono::milliseconds(200);
constexpr Duration kRefusalHolds = std::chrono::milliseconds(2000);
constexpr Duration kDoubtHolds = std::chrono::milliseconds(2000);
constexpr Duration kHeardJustNow = std::chrono::milliseconds(100);
constexpr Duration kVainFor = std::chrono::seconds(10);   // from one break to another
constexpr Duration kCutHolds = std::chrono::seconds(15);  // then the link is tried again
constexpr Duration kLongestCut = std::chrono::seconds(240);
constexpr Duration kCutRemembered = std::chrono::minutes(10);

bool is_gone(PeerHealth health) {
  return health == PeerHealth::dead || health == PeerHealth::left;
}
}  // namespace

const Peers::Peer* Peers::find(const NodeId& node) const {
  const auto found = peers_.find(node);
  return found == peers_.end() ? nullptr : &found->second;
}

void Peers::on_message(Time now, const NodeId& from) {
  Peer& peer = peers_[from];
  peer.heard = now;
  peer.unheard = false;
  if (now < peer.told_at + kVerdictHolds) return;
  peer.health = PeerHealth::alive;
  peer.refused = false;
  peer.doubted_until = Time{};
}

void Peers::take(Time now, Peer& peer, PeerHealth health, bool refused) {
  const bool back = health == PeerHealth::alive;
  peer.health = health;
  peer.refused = refused;
  peer.told_at = back ? Time{} : now;
  if (back) peer.doubted_until = Time{};
  if (is_gone(health)) peer.vain_since.reset();
}

bool Peers::on_health(Time now, const NodeId& node, PeerHealth health) {
  Peer& peer = peers_[node];
  // The detector is slower than a refused dial.
  if (!is_gone(health) && peer.refused && now < peer.told_at + kRefusalHolds) return false;
  take(now, peer, health, false);
  return true;
}

void Peers::on_link(Time now, const NodeId& node, LinkState state) {
  if (state == LinkState::up) take(now, peers_[node], PeerHealth::alive, false);
  if (state == LinkState::refused) take(now, peers_[node], PeerHealth::dead, true);
}

void Peers::on_farewell(Time now, const NodeId& node) {
  Peer& peer = peers_[node];
  peer.health = PeerHealth::dead;
  peer.refused = true;
  peer.told_at = now;
}

void Peers::on_doubt(Time now, const NodeId& node) {
  Peer& peer = peers_[node];
  if (now > peer.heard + kHeardJustNow) peer.doubted_until = now + kDoubtHolds;
}

void Peers::on_bytes(const NodeId& from) {
  Peer& peer = peers_[from];
  peer.vain_since.reset();
  peer.cut_until = Time{};
}

// A node that has died, or is silent altogether, breaks its connections as well: that is for the
// detector to find.
bool Peers::breaks_in_vain(Time now, const NodeId& node, Duration alive_within) {
  Peer& peer = peers_[node];
  if (gone(node)) {
    peer.vain_since.reset();
    return false;
  }
  if (!peer.vain_since) peer.vain_since = now;
  return now >= *peer.vain_since + kVainFor && now < peer.heard + alive_within;
}

void Peers::cut(Time now, const NodeId& node) {
  Peer& peer = peers_[node];
  peer.vain_since.reset();
  const bool again = peer.cut_at && now < *peer.cut_at + kCutRemembered;
  peer.cut_for = again ? std::min(2 * peer.cut_for, kLongestCut) : kCutHolds;
  peer.cut_at = now;
  peer.cut_until = now + peer.cut_for;
}

Duration Peers::waited(Time now, const NodeId& node, bool awaited, Time since) {
  Peer& peer = peers_[node];
  if (!awaited) {
    peer.awaited_since.reset();
    return {};
  }
  // Two members may have nothing to tell each other during a long step: that is no silence.
  if (!peer.awaited_since) peer.awaited_since = now;
  return now - std::max({peer.heard, *peer.awaited_since, since});
}

void Peers::give_up(Time now, const NodeId& node) {
  Peer& peer = peers_[node];
  peer.doubted_until = now + kDoubtHolds;
  peer.unheard = true;
}

bool Peers::gone(const NodeId& node) const {
  const Peer* peer = find(node);
  return peer && is_gone(peer->health);
}

bool Peers::reached(Time now, const NodeId& node) const {
  const Peer* peer = find(node);
  return !gone(node) && (!peer || (!peer->unheard && now >= peer->cut_until));
}

bool Peers::suspected(Time now, const NodeId& node) const {
  const Peer* peer = find(node);
  return gone(node) || (peer && (peer->health == PeerHealth::suspect || peer->doubted_until > now));
}

Time Peers::heard(const NodeId& node) const {
  const Peer* peer = find(node);
  return peer ? peer->heard : Time{};
}

std::vector<NodeId> Peers::known() const {
  std::vector<NodeId> nodes;
  for (const auto& [node, peer] : peers_) nodes.push_back(node);
  return nodes;
}

std::vector<NodeId> Peers::unreached(Time now) const {
  std::vector<NodeId> nodes;
  for (const auto& [node, peer] : peers_)
    if (!reached(now, node)) nodes.push_back(node);
  return nodes;
}

}  // namespace gpunode::job
