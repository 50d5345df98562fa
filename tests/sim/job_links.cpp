// The links of the simulated world: delay, loss, repetition, order within a lane, limited speed.
#include <algorithm>
#include <utility>

#include "runtime/job/job_codec.hpp"
#include "tests/sim/job_world.hpp"

namespace gpunode::sim {

using namespace std::chrono_literals;

void JobWorld::send(std::size_t from, const job::Send& send) {
  job::JobMessage message = send.message;
  if (options_.overhears) options_.overhears(nodes_[from].member.node, message);
  std::size_t to = index_of(send.to);
  if (to >= nodes_.size()) return;
  if (!sees(from, to)) to = nodes_.size() - 1;
  if (!sees(from, to)) return;
  Wire& wire = wires_[from][to];
  if (send.bulk && wire.swallows_bulk) return;
  if (wire.cut || !nodes_[to].core || rng_.chance(calm_ ? 0 : options_.loss)) return;
  if (!calm_ && rng_.chance(options_.corruption))
    if (auto* step = std::get_if<job::StepMessage>(&message.body))
      if (auto* chunk = std::get_if<collective::ResultChunk>(&step->message)) {
        Bytes bytes = to_bytes(chunk->payload.view);
        if (!bytes.empty()) bytes[rng_.below(bytes.size())] ^= std::byte{1};
        chunk->payload = SharedBytes::from(std::move(bytes));
      }
  Duration delay = rng_.chance(0.02) ? between(5ms, 80ms) : between(100us, 3ms);
  if (send.bulk) delay += transfer_time(from, to, message);
  const std::size_t lane = send.bulk ? 1 : 0;
  if (now_ < wire.late_until[lane]) delay += wire.late_by[lane];
  Time& last = wire.last[lane];
  last = std::max(last + 1us, now_ + delay);
  const std::uint64_t connection = wire.connection;
  const double again = options_.storm[static_cast<std::size_t>(Storm::late_copies)];
  if (again > 0 && !calm_ && storm_rng_.chance(again)) {
    ++result_.storm[static_cast<std::size_t>(Storm::late_copies)];
    schedule(now_ + drawn(500ms, storm_rng_.chance(0.5) ? 10s : 120s), [this, from, to, message] {
      if (nodes_[to].core)
        on_node(to, 0ms, [this, from, to, message] { deliver(from, to, message); });
    });
  }
  const int copies = !calm_ && rng_.chance(options_.repetition) ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    const Time when = copy == 0 ? last : last + between(1ms, 300ms);
    const std::uint64_t life = nodes_[to].life;
    schedule(when, [this, from, to, connection, life, copy, message] {
      const Wire& now_wire = wires_[from][to];
      if (copy == 0 && (now_wire.connection != connection || now_wire.cut)) return;
      if (nodes_[to].life != life || !nodes_[to].core) return;
      on_node(to, 0ms, [this, from, to, message] { deliver(from, to, message); });
    });
  }
}

void JobWorld::swallow_bulk(std::size_t one, std::size_t other) {
  constexpr Duration kGivesUp = 15s;
  if (calm_) {
    wires_[one][other].swallows_bulk = wires_[other][one].swallows_bulk = false;
    return break_link(one, other);
  }
  for (const auto& [self, peer] : {std::pair(one, other), std::pair(other, one)}) {
    const bool gives_up = std::exchange(wires_[self][peer].swallows_bulk, true);
    if (gives_up && nodes_[self].core)
      feed(self, input_of(Answer::bulk_reset), [&, self = self, peer = peer](job::Actions& out) {
        nodes_[self].core->on_bulk_reset(clock(self), id(peer), out);
      });
  }
  schedule(now_ + kGivesUp, [this, one, other] { swallow_bulk(one, other); });
}

// How long bytes take through the sender's uplink and the link, behind what was sent before.
Duration JobWorld::transfer_time(std::size_t from, std::size_t to, const job::JobMessage& message) {
  std::uint64_t bytes = 100;
  if (const auto* part = std::get_if<job::StatePart>(&message.body)) bytes += part->payload.size();
  if (const auto* part = std::get_if<job::ResultPart>(&message.body)) bytes += part->payload.size();
  if (const auto* step = std::get_if<job::StepMessage>(&message.body)) {
    if (const auto* one = std::get_if<collective::PartialChunk>(&step->message))
      bytes += one->payload.size();
    if (const auto* one = std::get_if<collective::ResultChunk>(&step->message))
      bytes += one->payload.size();
  }
  Time through = now_;
  const auto pass = [&](Time& free, std::uint64_t rate) {
    if (rate == 0) return;
    free =
        std::max(free, through) + Duration(static_cast<std::int64_t>(bytes * 1'000'000'000 / rate));
    through = free;
  };
  const bool low = std::holds_alternative<job::StatePart>(message.body) ||
                   std::holds_alternative<job::ResultPart>(message.body);
  Node& sender = nodes_[from];
  if (low) {  // goes when nothing else wants to
    sender.uplink_low = std::max(sender.uplink_low, sender.uplink_free);
    pass(sender.uplink_low, options_.uplink_rate);
    sender.low_bytes = bytes;
  } else if (options_.uplink_rate > 0) {  // overtakes those, but for the one that is under way
    const Duration part(
        static_cast<std::int64_t>(sender.low_bytes * 1'000'000'000 / options_.uplink_rate));
    if (sender.uplink_free < now_ && sender.uplink_low > now_)
      sender.uplink_free = now_ + std::min(sender.uplink_low - now_, part);
    pass(sender.uplink_free, options_.uplink_rate);
  }
  const bool slow = from + 1 == nodes_.size() || to + 1 == nodes_.size();
  if (slow) pass(wires_[from][to].free, options_.last_node_rate);
  return through - now_;
}

void JobWorld::tell(std::size_t to, const NodeId& from, job::JobMessage message) {
  if (!nodes_[to].core || from == id(to)) return;
  on_node(to, 0ms, [this, to, from, message = std::move(message)] {
    feed(to, input_of(message.body),
         [&](job::Actions& out) { nodes_[to].core->on_message(clock(to), from, message, out); });
  });
}

void JobWorld::deliver(std::size_t from, std::size_t to, job::JobMessage message) {
  if (options_.over_the_wire) {
    const collective::EncodedMessage wire = job::encode_message(message);
    auto back =
        job::decode_message(wire.body, wire.payload, message.job, options_.model.element_count);
    GPUNODE_CHECK(back.has_value(), back.has_value() ? "" : back.error().message());
    message = std::move(*back);
  }
  wires_[from][to].delivered = now_;
  feed_swim(to, [&](membership::Swim& swim) { return swim.on_traffic(now_, id(from)); });
  feed(to, input_of(message.body),
       [&](job::Actions& out) { nodes_[to].core->on_message(clock(to), id(from), message, out); });
}

}  // namespace gpunode::sim
