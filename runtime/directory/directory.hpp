// The replicated map of hints: services (served models among them), jobs, health, who leaves. One
// writer a keyspace (the owning node), so it needs no agreement and no clocks; copies converge by
// comparing one hash with one random live peer a second. Pure; owned by the cluster actor.
// Nothing here decides a training step. Costs one small message a second, and 256 KiB of memory an
// owner at most, twice that while another state of it comes in; nothing is kept of owners that have
// not signed it. The exchange that makes the copies equal:
//   every round   root   -> one random live peer; equal roots end it
//   roots differ  summary (owner, epoch, version of all) <- the peer
//   per keyspace  the newer side sends deltas; the older side is asked to, or asks
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/result.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/directory/keyspace.hpp"

namespace gpunode::directory {

namespace testing {
struct Mutation {
  bool forget_tombstones = false;  // a deletion leaves nothing behind
  bool ignore_epoch = false;       // versions of different lives are compared
};
}  // namespace testing

struct DirectoryConfig {
  // One root hash goes to one random live peer this often. Lower converges sooner.
  Duration round = std::chrono::seconds(1);
  // A deletion is remembered by its owner this long; who was away longer reloads the keyspace.
  Duration tombstone_grace = std::chrono::hours(1);
  // The keyspace of a node that is gone is hidden at once and dropped after this long.
  Duration gone_grace = std::chrono::hours(24);
  // Own updates go to this many live peers at once (to all, if there are no more).
  std::size_t push_fanout = 16;
  // Cut of one message, and how many messages one round may send to one peer.
  std::size_t max_message_bytes = 64 * 1024;
  std::size_t max_messages_per_round = 8;
  std::size_t max_owners = 4096;
  // Beyond a burst, a keyspace is begun to be changed this often, by its owner's messages and by all
  // others' together: each time costs a copy and a hash of it. A later round asks for the rest.
  Duration work_pause = std::chrono::milliseconds(50);
  int work_burst = 256;
  testing::Mutation mutation;
};

struct Send {  // one datagram over the control channel; may be lost
  NodeId to;
  Bytes bytes;
};
struct Changed {  // a visible entry was written, or (no value) erased or hidden
  NodeId owner;
  std::string key;
  std::optional<Bytes> value;
};
using Action = std::variant<Send, Changed>;
using Actions = std::vector<Action>;

struct Entry {
  NodeId owner;
  std::string key;
  Bytes value;
  std::uint64_t version = 0;
};

class Directory {
 public:
  // `epoch` is this node's boot: a higher one replaces all that an earlier life wrote.
  Directory(NodeId self, Boot epoch, DirectoryConfig config, DirectorySigning signing,
            std::uint64_t seed, Time now);
  Directory(Directory&&) = default;  // one writer a keyspace
  Directory& operator=(Directory&&) = default;

  // Writes into this node's own keyspace. Fails with invalid_argument (key or value too long) or
  // resource_exhausted (keyspace full); nothing changes then. Writing an equal value does nothing.
  Result<Actions> set(Time now, std::string_view key, ByteView value);
  // Deletes from this node's own keyspace; nothing happens if the key is not there.
  Actions erase(Time now, std::string_view key);

  Actions on_tick(Time now);
  // A control message of kind directory from an authenticated peer. Bad bytes are counted, dropped.
  Actions on_message(Time now, const NodeId& from, ByteView bytes);
  // Membership says that this peer is alive; its keyspace becomes visible, and the copies are
  // compared at once.
  Actions on_peer_up(Time now, const NodeId& peer);
  // Dead or left: its keyspace is hidden now and dropped after gone_grace.
  Actions on_peer_gone(Time now, const NodeId& peer);

  std::optional<Bytes> get(const NodeId& owner, std::string_view key) const;
  // All visible entries whose key begins with `prefix`, in order of owner, then key.
  std::vector<Entry> scan(std::string_view prefix) const;
  // Equal on two nodes if and only if they hold the same keyspaces (hidden ones too).
  Hash root() const;
  // Whether it has held all that one live peer held: what it lacks since then is news.
  bool has_caught_up() const { return caught_up_; }
  // Dropped because they were malformed or not signed by their owner.
  std::uint64_t rejected_updates() const { return rejected_; }
  // Messages that no honest node sends: they cannot be read, or are read up to an update that was
  // forged or altered, or one too many.
  std::uint64_t malformed_messages() const { return malformed_; }

 private:
  struct Partial {  // its owner has signed where it leads; its items are not verified yet
    Keyspace keyspace;
    NodeId from;                // who began it
    std::uint64_t version = 0;  // where it leads
    bool whole = false;         // begun with nothing, not with what was complete
    bool mixed = false;         // parts from several nodes, or of several versions
  };
  struct Held {
    Keyspace complete;               // verified; what others see of it
    std::optional<Partial> partial;  // on its way in
    std::optional<Time> gone_since;  // hidden since; absent while its owner is live
    // What another node has added to it led elsewhere: that node altered it, or the owner has signed
    // two histories. Until it is replaced, only the owner adds to it; others send the whole.
    bool doubted = false;
    Time owner_spent{}, others_spent{};  // until when their allowance of work is
    Time asked_owner{}, asked_others{};  // for what lies between what is here and what was sent
  };
  enum class Base { gap, nothing, complete, partial };
  enum class Verdict { settled, unknown, too_often, offence };
  // Whether a is a later state of the same keyspace than b: a higher life, or more of the same.
  bool newer(const Position& a, const Position& b) const;
  bool is_forgotten(const NodeId& owner, Boot epoch) const;
  void seal_own();
  void push_own();
  void collect_own(Time now);
  void drop_gone(Time now);
  Actions take() { return std::exchange(actions_, {}); }
  void on_summary(const NodeId& from, const Message& message);
  void note_caught_up();
  void on_deltas(Time now, const NodeId& from, const std::vector<Delta>& deltas);
  Verdict on_delta(Time now, const NodeId& from, const Delta& delta);
  Verdict add(Time now, const NodeId& from, const Delta& delta, Held& held);
  Verdict complete(const Delta& delta, Held& held, Partial candidate);
  Verdict refuse(const Delta& delta, Held& held, const Partial& candidate);
  static Base base_of(const Held& held, const NodeId& from, const Delta& delta);
  bool may_begin(Time now, Time& spent) const;
  void show(const NodeId& owner, const Keyspace& before, const Keyspace& after);
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
  std::vector<Position>
      awaited_;  // of the peer that was compared with last, until it has caught up
  bool caught_up_ = false;
  Actions actions_;
  std::uint64_t rejected_ = 0, malformed_ = 0;
};

}  // namespace gpunode::directory
