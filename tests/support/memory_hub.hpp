// The inside of MemoryNetwork: who is on the network, which pairs have a session, and the queue of
// events in the order of their due time. Everything under one mutex; callbacks run outside of it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tests/support/memory_link.hpp"

namespace gpunode::transport::detail {

inline std::size_t lane_index(Lane lane) {
  return static_cast<std::size_t>(lane);
}

struct MemoryEndpoint {
  NodeId node;
  LinkEvents events;
  std::set<NodeId> peers;
  bool open = true;
  LinkCounters counters[2];
};

struct MemoryEvent {
  std::weak_ptr<MemoryEndpoint> to;
  NodeId from;
  Lane lane = Lane::control;
  bool is_state = false;
  LinkState state = LinkState::up;
  Message message;
  std::uint64_t session = 0;  // of the pair and lane when sent; another one since: lost
};

struct MemoryPair {
  bool cut = false;
  bool up[2] = {false, false};  // by lane
  std::uint64_t session[2] = {0, 0};
  std::map<NodeId, bool> mute;  // by sender
  std::map<NodeId, Duration> delay;
  std::map<NodeId, Time> last_due;  // by sender: keeps a direction in order
};

struct MemoryHub {
  explicit MemoryHub(bool own_thread);
  ~MemoryHub();

  MemoryPair& pair(const NodeId& a, const NodeId& b);
  std::shared_ptr<MemoryEndpoint> find(const NodeId& node);
  void push(MemoryEvent event, Time due);
  void push_state(const NodeId& to, const NodeId& peer, Lane lane, LinkState state);
  // Opens the control session of the pair if nothing stands against it.
  void try_open(const NodeId& a, const NodeId& b);
  void open_bulk(const NodeId& a, const NodeId& b);
  // Ends the sessions of the pair; `silent` is told nothing.
  void break_pair(const NodeId& a, const NodeId& b, const NodeId* silent = nullptr);
  void leave(const std::shared_ptr<MemoryEndpoint>& endpoint);
  // Takes the next due event and calls back; false: nothing is due.
  bool step(std::unique_lock<std::mutex>& lock, Time now);
  void run();

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::map<NodeId, std::shared_ptr<MemoryEndpoint>> endpoints;
  std::map<std::pair<NodeId, NodeId>, MemoryPair> pairs;
  std::map<std::pair<Time, std::uint64_t>, MemoryEvent> queue;
  std::uint64_t next_number = 0;
  Time now{};
  MemoryNetwork::FateHook fate;
  const MemoryEndpoint* delivering_to = nullptr;
  std::thread::id delivering_thread;
  bool stopping = false;
  std::thread thread;
};

}  // namespace gpunode::transport::detail
