// The replicated map of hints: services (served models among them), jobs, health, who leaves. One
// writer a keyspace
// (the owning node), so it needs no agreement and no clocks; copies converge by comparing one hash
// with one random live peer a second. Pure; owned by the membership actor. Nothing here decides a
// training step. Costs one small message a second, and 256 KiB of memory an owner at most.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::directory {

inline constexpr std::size_t kMaxKeyBytes = 256;
inline constexpr std::size_t kMaxValueBytes = 4096;
inline constexpr std::size_t kMaxKeysPerOwner = 1024;
inline constexpr std::size_t kMaxBytesPerOwner = 256 * 1024;  // keys and values

using Hash = std::array<std::byte, 32>;

// The keys of runtime/security seen from here. Called on the driver's thread.
struct DirectorySigning {
  std::function<Hash(ByteView)> hash;  // SHA-256
  std::function<Bytes(ByteView message)> sign;
  // True only for a good signature by `owner` over `message`; false for owners without a known key.
  std::function<bool(const NodeId& owner, ByteView message, ByteView signature)> verify;
};

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
  ~Directory();
  Directory(Directory&&) noexcept;
  Directory& operator=(Directory&&) noexcept;

  // Writes into this node's own keyspace. Fails with invalid_argument (key or value too long) or
  // resource_exhausted (keyspace full); nothing changes then. Writing an equal value does nothing.
  Result<Actions> set(Time now, std::string_view key, ByteView value);
  // Deletes from this node's own keyspace; nothing happens if the key is not there.
  Actions erase(Time now, std::string_view key);

  Actions on_tick(Time now);
  // A control message of kind directory from an authenticated peer. Bad bytes are counted, dropped.
  Actions on_message(Time now, const NodeId& from, ByteView bytes);
  // Membership says that this peer is alive; its keyspace becomes visible.
  Actions on_peer_up(Time now, const NodeId& peer);
  // Dead or left: its keyspace is hidden now and dropped after gone_grace.
  Actions on_peer_gone(Time now, const NodeId& peer);

  std::optional<Bytes> get(const NodeId& owner, std::string_view key) const;
  // All visible entries whose key begins with `prefix`, in order of owner, then key.
  std::vector<Entry> scan(std::string_view prefix) const;
  // Equal on two nodes if and only if they hold the same keyspaces (hidden ones too).
  Hash root() const;
  // Dropped because they were malformed or not signed by their owner.
  std::uint64_t rejected_updates() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace gpunode::directory
