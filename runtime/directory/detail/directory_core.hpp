// The inside of Directory: this node's own keyspace, the copies of the others, and the exchange
// that makes them equal:
//   every round   root   -> one random live peer; equal roots end it
//   roots differ  summary (owner, epoch, version of all) <- the peer
//   per keyspace  the newer side sends deltas; the older side is asked to, or asks
#pragma once

#include <map>
#include <set>

#include "runtime/base/rng.hpp"
#include "runtime/directory/directory.hpp"
#include "runtime/directory/keyspace.hpp"

namespace gpunode::directory {

class Directory::Core {
 public:
  Core(NodeId self, Boot epoch, DirectoryConfig config, DirectorySigning signing,
       std::uint64_t seed, Time now);

  Result<void> set(Time now, std::string_view key, ByteView value);
  void erase(Time now, std::string_view key);
  void on_tick(Time now);
  void on_message(Time now, const NodeId& from, ByteView bytes);
  void on_peer_up(const NodeId& peer);
  void on_peer_gone(Time now, const NodeId& peer);
  Actions take() { return std::exchange(actions_, {}); }

  std::optional<Bytes> get(const NodeId& owner, std::string_view key) const;
  std::vector<Entry> scan(std::string_view prefix) const;
  Hash root() const;
  std::uint64_t rejected() const { return rejected_; }

 private:
  struct Held {
    Keyspace complete;                // verified; what others see of it
    std::optional<Keyspace> partial;  // on its way in, not yet verified
    std::optional<Time> gone_since;   // hidden since; absent while its owner is live
  };
  // Whether a is a later state of the same keyspace than b: a higher life, or more of the same.
  bool newer(const Position& a, const Position& b) const;
  void seal_own();
  void push_own();
  void collect_own(Time now);
  void drop_gone(Time now);
  void on_summary(const NodeId& from, const Message& message);
  void on_delta(Time now, const NodeId& from, const Delta& delta);
  bool fits(const Held& held, const Delta& delta, Keyspace& candidate) const;
  void install(Held& held, const NodeId& owner, Keyspace keyspace);
  void show(const NodeId& owner, const Keyspace& before, const Keyspace& after);
  void request(const NodeId& from, const Position& theirs);
  void send_deltas(const NodeId& to, const std::vector<Position>& wanted);
  const Keyspace* find(const NodeId& owner) const;
  Position position_of(const NodeId& owner) const;
  Position reached(const Position& theirs) const;
  std::vector<Position> positions() const;
  void send(const NodeId& to, const Message& message);

  NodeId self_;
  DirectoryConfig config_;
  DirectorySigning signing_;
  Rng rng_;
  Keyspace own_;
  std::map<std::uint64_t, Time> own_tombstones_;  // version -> when
  std::map<NodeId, Held> others_;
  std::map<NodeId, Boot> forgotten_;  // dropped for good until their owner is live again
  std::set<NodeId> live_;
  Time next_round_{};
  Actions actions_;
  std::uint64_t rejected_ = 0;
};

}  // namespace gpunode::directory
