// The rules of help: whom we ask to look at a member that does not answer us, and what others ask of
// us. Only who was asked is believed, and nobody makes us ping a third faster than honest nodes need.
#include "runtime/membership/swim.hpp"

namespace gpunode::membership {

namespace {
constexpr std::size_t kMaxRelays = 256;
// That one member may ask for, and that go to one member for all others, at once and then. Where a
// member is silent each of the others asks indirect_probes helpers, which is as many a helper.
constexpr double kMostRelays = 20, kRelaysPerSecond = 10;
}  // namespace

void Swim::ask_helpers(std::uint64_t sequence, Probe& probe) {
  probe.indirect = true;
  const NodeId target = probe.target;
  const auto helpers = pick(config_.indirect_probes, [&](const Member& member) {
    return member.state == PeerHealth::alive && member.record.id != target;
  });
  for (const NodeId& helper : helpers) {
    probe.helpers[helper] = false;
    send(helper, {MessageKind::ping_request, sequence, target});
  }
}

// An ack or nack about somebody else: from one whom we asked, about whom we asked, or it is nothing.
void Swim::take_help(const NodeId& from, const Message& message) {
  const auto probe = probes_.find(message.sequence);
  if (probe == probes_.end() || probe->second.target != message.target) return;
  const auto helper = probe->second.helpers.find(from);
  if (helper == probe->second.helpers.end()) return;
  if (message.kind == MessageKind::ack)
    answered(message.target, false);
  else
    helper->second = true;
}

// Beyond what one may ask for there is no answer; beyond what goes to one target there is no ping of
// its own, and the next answer to another's is the answer.
void Swim::take_request(const NodeId& from, const Message& message) {
  if (relays_.size() >= kMaxRelays || message.target == self_.id || !find(from)) return;
  if (!tracks_[from].asks.take(now_, kMostRelays, kRelaysPerSecond)) return;
  const std::uint64_t sequence = ++sequence_;
  relays_[sequence] = {from, message.sequence, message.target, now_ + config_.ack_timeout};
  if (!find(message.target)) return;
  if (tracks_[message.target].asked_of.take(now_, kMostRelays, kRelaysPerSecond))
    send(message.target, {MessageKind::ping, sequence});
}

void Swim::pass_answer_on(const NodeId& from, std::uint64_t sequence) {
  const auto asked = relays_.find(sequence);
  if (asked == relays_.end() || asked->second.target != from) return;
  std::erase_if(relays_, [&](const auto& each) {
    const Relay& relay = each.second;
    if (relay.target != from) return false;
    send(relay.requester, {MessageKind::ack, relay.sequence, from});
    return true;
  });
}

void Swim::advance_relays() {
  std::vector<Relay> expired;
  std::erase_if(relays_, [&](const auto& each) {
    if (now_ < each.second.deadline) return false;
    expired.push_back(each.second);
    return true;
  });
  for (const Relay& relay : expired)
    send(relay.requester, {MessageKind::nack, relay.sequence, relay.target});
}

}  // namespace gpunode::membership
