// The real failure detector inside the simulated world: each node runs its own Swim over the wires
// that the job's messages use, and its verdicts are what the job hears.
#include "tests/sim/job_world.hpp"

namespace gpunode::sim {

using namespace std::chrono_literals;

namespace {

// A signature that only its owner would make; strength is tested elsewhere.
Bytes sign_as(const NodeId& owner, ByteView message) {
  const Digest digest = digest_of(message, mix(std::to_integer<std::uint64_t>(owner.value[0]), 1));
  return to_bytes(std::as_bytes(std::span(&digest, 1)));
}

}  // namespace

void JobWorld::start_swim(std::size_t node) {
  Node& one = nodes_[node];
  auto record_of = [this](std::size_t index) {
    membership::MemberRecord record;
    record.id = id(index);
    record.name = "n" + std::to_string(index);
    record.incarnation = {nodes_[index].member.boot, 0};
    record.control_endpoints = {"tcp://sim:" + std::to_string(index + 1)};
    return record;
  };
  membership::RecordSigning signing;
  signing.sign = [self = one.member.node](ByteView message) { return sign_as(self, message); };
  signing.verify = [](const NodeId& owner, const membership::PublicKey&, ByteView message,
                      ByteView signature) {
    const Bytes good = sign_as(owner, message);
    return std::equal(good.begin(), good.end(), signature.begin(), signature.end());
  };
  one.swim.emplace(record_of(node), membership::SwimConfig{}, signing,
                   mix(options_.seed, node * 77 + one.member.boot), now_);
  for (std::size_t other = 0; other < nodes_.size(); ++other) {
    if (other == node) continue;
    membership::MemberRecord seed = record_of(other);
    seed.signature = sign_as(seed.id, membership::signed_bytes(seed));
    feed_swim(node, [&](membership::Swim& swim) { return swim.add_seed(now_, seed); });
  }
  const std::uint64_t life = one.life;
  auto tick = std::make_shared<std::function<void()>>();
  *tick = [this, node, life, weak = std::weak_ptr(tick)] {
    if (nodes_[node].life != life || !nodes_[node].swim) return;
    feed_swim(node, [&](membership::Swim& swim) { return swim.on_tick(now_); });
    if (const auto self = weak.lock())
      on_node(node, nodes_[node].swim->tick_interval(), [self] { (*self)(); });
  };
  on_node(node, between(0ms, 50ms), [tick] { (*tick)(); });
}

void JobWorld::feed_swim(std::size_t node,
                         const std::function<membership::Actions(membership::Swim&)>& input) {
  if (nodes_[node].swim) carry_out_swim(node, input(*nodes_[node].swim));
}

void JobWorld::tell_swim(std::size_t node, std::size_t peer, LinkState state) {
  feed_swim(node,
            [&](membership::Swim& swim) { return swim.on_connection(now_, id(peer), state); });
}

void JobWorld::carry_out_swim(std::size_t node, const membership::Actions& actions) {
  const std::uint64_t life = nodes_[node].life;
  for (const membership::Action& action : actions) {
    if (nodes_[node].life != life || !nodes_[node].core) return;
    if (const auto* gossip = std::get_if<membership::Send>(&action)) {
      send_gossip(node, index_of(gossip->to), gossip->bytes);
    } else if (const auto* changed = std::get_if<membership::Changed>(&action)) {
      if (changed->state == PeerHealth::dead) ++result_.verdicts;
      feed(node, input_of(changed->state), [&](job::Actions& out) {
        nodes_[node].core->on_peer(clock(node), changed->record.id, changed->state, out);
      });
    } else if (const auto* connect = std::get_if<membership::Connect>(&action)) {
      const std::size_t peer = index_of(connect->record.id);
      on_node(node, between(1ms, 5ms), [this, node, peer] {
        if (wires_[node][peer].cut || wires_[peer][node].cut) return;  // a dial that hangs
        tell_swim(node, peer, nodes_[peer].core ? LinkState::up : LinkState::refused);
      });
    }
  }
}

void JobWorld::send_gossip(std::size_t from, std::size_t to, const Bytes& bytes) {
  if (wires_[from][to].cut || rng_.chance(calm_ ? 0 : options_.loss)) return;
  const std::uint64_t life = nodes_[to].life;
  schedule(now_ + between(100us, 3ms), [this, from, to, life, bytes] {
    if (nodes_[to].life != life || wires_[from][to].cut) return;
    on_node(to, 0ms, [this, from, to, bytes] {
      feed_swim(to, [&](membership::Swim& swim) { return swim.on_message(now_, id(from), bytes); });
    });
  });
}

}  // namespace gpunode::sim
