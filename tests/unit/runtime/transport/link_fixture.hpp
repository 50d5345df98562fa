// What the tests of both links share: a node under test that records its events and waits for them
// with a hang limit, and the two ways to make a net of such nodes.
#pragma once

#include <zmq.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include <gtest/gtest.h>

#include "runtime/transport/mesh_link.hpp"
#include "tests/support/memory_link.hpp"

namespace gpunode::transport::test {

inline constexpr std::chrono::seconds kHangLimit{10};

inline NodeId node_id(int number) {
  NodeId id;
  id.value[0] = std::byte(number);
  id.value[31] = std::byte(0xa0 + number);
  return id;
}

struct KeyPair {
  CurveKey open{}, secret{};
  static KeyPair create() {
    char open_text[41], secret_text[41];
    zmq_curve_keypair(open_text, secret_text);
    KeyPair pair;
    zmq_z85_decode(reinterpret_cast<std::uint8_t*>(pair.open.data()), open_text);
    zmq_z85_decode(reinterpret_cast<std::uint8_t*>(pair.secret.data()), secret_text);
    return pair;
  }
};

struct Received {
  NodeId from;
  Lane lane;
  Message message;
};
struct StateChange {
  NodeId peer;
  Lane lane;
  LinkState state;
};
// Either, in the order in which the link told.
struct Event {
  std::optional<Received> received;
  std::optional<StateChange> state;
};

class Journal {
 public:
  LinkEvents events() {
    LinkEvents events{[this](const NodeId& from, Lane lane, Message message) {
                        std::lock_guard lock(mutex_);
                        events_.push_back({Received{from, lane, std::move(message)}, std::nullopt});
                        changed_.notify_all();
                      },
                      [this](const NodeId& peer, Lane lane, LinkState state) {
                        std::lock_guard lock(mutex_);
                        events_.push_back({std::nullopt, StateChange{peer, lane, state}});
                        changed_.notify_all();
                      }};
    events.on_dropped = [this](const NodeId& from, Dropped why) {
      std::lock_guard lock(mutex_);
      ++dropped_[{from, why}];
      changed_.notify_all();
    };
    return events;
  }

  // Waits until `found(events)` holds.
  template <class Found>
  bool wait(Found found, std::chrono::milliseconds limit = kHangLimit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return found(events_); });
  }
  std::size_t count(const NodeId& peer, Lane lane, LinkState state) {
    std::lock_guard lock(mutex_);
    return count_in(events_, peer, lane, state);
  }
  bool wait_state(const NodeId& peer, Lane lane, LinkState state, std::size_t times = 1) {
    return wait([&](const auto& events) { return count_in(events, peer, lane, state) >= times; });
  }
  // Until that many frames of the peer were thrown away for that cause.
  bool wait_dropped(const NodeId& from, Dropped why, std::size_t times,
                    std::chrono::milliseconds limit = kHangLimit) {
    return wait([&](const auto&) { return dropped_[{from, why}] >= times; }, limit);
  }
  bool wait_messages(std::size_t count) {
    return wait([&](const auto& events) { return messages_in(events) >= count; });
  }
  std::vector<Received> messages() {
    std::lock_guard lock(mutex_);
    std::vector<Received> result;
    for (const Event& event : events_) {
      if (event.received) result.push_back(*event.received);
    }
    return result;
  }
  void clear() {
    std::lock_guard lock(mutex_);
    events_.clear();
  }
  std::vector<Event> all() {
    std::lock_guard lock(mutex_);
    return {events_.begin(), events_.end()};
  }

  static std::size_t count_in(const std::deque<Event>& events, const NodeId& peer, Lane lane,
                              LinkState state) {
    std::size_t count = 0;
    for (const Event& event : events) {
      count += event.state && event.state->peer == peer && event.state->lane == lane &&
               event.state->state == state;
    }
    return count;
  }
  static std::size_t messages_in(const std::deque<Event>& events) {
    std::size_t count = 0;
    for (const Event& event : events) count += event.received.has_value();
    return count;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::map<std::pair<NodeId, Dropped>, std::size_t> dropped_;
};

inline Message text_message(std::uint64_t stream, std::string_view body,
                            std::size_t payload_bytes = 0) {
  Message message;
  message.topic = Topic::job;
  message.stream = stream;
  message.body = to_bytes(as_bytes(body));
  if (payload_bytes > 0) {
    message.payload = SharedBytes::from(Bytes(payload_bytes, std::byte(stream & 0xff)));
  }
  return message;
}

// Sends as soon as there is a session.
inline bool send_when_up(Link& link, Journal& journal, const NodeId& to, Lane lane,
                         const Message& message) {
  if (!journal.wait_state(to, Lane::control, LinkState::up)) return false;
  return link.send(to, lane, message).has_value();
}

class Net {
 public:
  virtual ~Net() = default;
  virtual std::unique_ptr<Link> open(int number, Boot boot, LinkEvents events) = 0;
  virtual PeerAddress address(int number) = 0;
  void introduce(std::map<int, Link*> links) {
    for (auto [a, link] : links) {
      for (auto [b, other] : links) {
        if (a != b) link->set_peer(address(b));
      }
    }
  }
};

class MemoryNet final : public Net {
 public:
  std::unique_ptr<Link> open(int number, Boot boot, LinkEvents events) override {
    return network_.open(node_id(number), boot, std::move(events));
  }
  PeerAddress address(int number) override {
    PeerAddress address;
    address.node = node_id(number);
    return address;
  }
  MemoryNetwork& network() { return network_; }

 private:
  MemoryNetwork network_;
};

class MeshNet final : public Net {
 public:
  struct Shape {
    bool dial_only = false;
    bool plain = false;
  };
  std::unique_ptr<Link> open(int number, Boot boot, LinkEvents events) override {
    return open_mesh(number, boot, std::move(events), {});
  }
  MeshLinkOptions options(int number, Boot boot, Shape shape) {
    std::lock_guard lock(mutex_);
    Node& node = nodes_[number];
    if (node.keys.open == CurveKey{}) node.keys = KeyPair::create();
    MeshLinkOptions options;
    options.node = node_id(number);
    options.boot = boot;
    options.curve_public_key = node.keys.open;
    options.curve_secret_key = node.keys.secret;
    if (!shape.dial_only) {
      options.control_listen = {"tcp://127.0.0.1:0"};
      options.bulk_listen = {"tcp://127.0.0.1:0"};
    }
    options.bulk_plain = shape.plain;
    options.redial_min = std::chrono::milliseconds(10);
    options.redial_max = std::chrono::milliseconds(200);
    options.admit = [this](const CurveKey& key) { return admit(key); };
    return options;
  }
  std::unique_ptr<MeshLink> open_mesh(int number, Boot boot, LinkEvents events, Shape shape) {
    auto link = MeshLink::open(options(number, boot, shape), std::move(events));
    if (!link) {
      ADD_FAILURE() << link.error().message();
      return nullptr;
    }
    std::lock_guard lock(mutex_);
    nodes_[number].boot = boot;
    nodes_[number].control = (*link)->control_endpoints();
    nodes_[number].bulk = (*link)->bulk_endpoints();
    return std::move(*link);
  }
  PeerAddress address(int number) override {
    std::lock_guard lock(mutex_);
    const Node& node = nodes_[number];
    return {node_id(number), node.boot, node.control, node.bulk, node.keys.open};
  }
  // A new key of the node, which others know from now on.
  LinkKeys rekey(int number) {
    std::lock_guard lock(mutex_);
    KeyPair& keys = nodes_[number].keys;
    const KeyPair before = std::exchange(keys, KeyPair::create());
    return {{keys.open, keys.secret}, CurveKeyPair{before.open, before.secret}};
  }
  void revoke(int number) {
    std::lock_guard lock(mutex_);
    nodes_[number].admitted = false;
  }
  KeyVerdict admit(const CurveKey& key) {
    std::lock_guard lock(mutex_);
    for (const auto& [number, node] : nodes_) {
      if (node.keys.open != key) continue;
      auto verdict = node.admitted ? KeyVerdict::Answer::accepted : KeyVerdict::Answer::unknown;
      return {verdict, node_id(number)};
    }
    return {};
  }

 private:
  struct Node {
    KeyPair keys;
    Boot boot = 0;
    bool admitted = true;
    std::vector<std::string> control, bulk;
  };
  std::mutex mutex_;
  std::map<int, Node> nodes_;
};

}  // namespace gpunode::transport::test
