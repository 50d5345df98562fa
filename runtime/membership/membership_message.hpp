// What the failure detectors of two nodes say to each other. Plain values between swim and
// membership_codec. A rumour is a claim about one member; only one that carries a record signed by
// its subject can make it alive, newer or gone by its own wish.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/peer.hpp"
#include "runtime/membership/member_record.hpp"

namespace gpunode::membership {

inline constexpr std::size_t kMaxRumors = 512;   // in one message
inline constexpr std::size_t kMaxObservers = 8;  // named in one rumour

struct Rumor {
  PeerHealth state = PeerHealth::alive;
  NodeId subject;
  Incarnation incarnation;
  std::vector<NodeId> observers = {};   // who found it silent
  std::vector<NodeId> refused_by = {};  // who saw a reset and a refused dial
  std::optional<MemberRecord> record = {};
};

enum class MessageKind : std::uint8_t { ping, ack, ping_request, nack, gossip, sync };

struct Message {
  MessageKind kind = MessageKind::gossip;
  std::uint64_t sequence = 0;
  NodeId target = {};         // ping_request, and ack or nack that answers one
  bool reply_wanted = false;  // sync
  std::vector<Rumor> rumors = {};
};

}  // namespace gpunode::membership
