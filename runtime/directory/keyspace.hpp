// One owner's part of the map, as any node holds it: items by key, tombstones among them, and the
// owner's signature over the whole. Knows how to cut deltas and to take them in. Pure values.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "runtime/directory/directory_codec.hpp"

namespace gpunode::directory {

// The keys of runtime/security seen from here. Called on the driver's thread.
struct DirectorySigning {
  std::function<Hash(ByteView)> hash;  // SHA-256
  std::function<Bytes(ByteView message)> sign;
  // True only for a good signature by `owner` over `message`; false for owners without a known key.
  std::function<bool(const NodeId& owner, ByteView message, ByteView signature)> verify;
};

struct Keyspace {
  struct Value {
    Bytes value;
    std::uint64_t version = 0;
    bool tombstone = false;
  };
  Boot epoch = 0;
  std::uint64_t collected = 0;
  std::uint64_t version = 0;  // of a partly received keyspace: how far it reaches
  Hash root{};
  Bytes signature;
  std::map<std::string, Value, std::less<>> items;

  // Bytes of live keys and values, and how many live keys there are.
  std::size_t live_bytes() const;
  std::size_t live_keys() const;
  const Value* live(std::string_view key) const;
  // Forgets tombstones up to this version.
  void collect(std::uint64_t upto);
};

// What the owner signs: (owner, epoch, collected, version, root).
Bytes signed_bytes(const NodeId& owner, const Keyspace& keyspace);
Bytes signed_bytes(const Delta& delta);

// Hash over all items, tombstones too, in order of key.
Hash root_of(const Keyspace& keyspace, const DirectorySigning& signing);

// The items newer than `since` (all if that lies behind the tombstones that were forgotten), cut
// into deltas of about `max_bytes` each, `max_count` at most; the receiver asks again for the rest.
std::vector<Delta> cut_deltas(const NodeId& owner, const Keyspace& keyspace, std::uint64_t since,
                              std::size_t max_bytes, std::size_t max_count);

// About how many bytes this delta takes on the wire.
std::size_t wire_estimate(const Delta& delta);

// Adds a delta's items to what is held so far. False if they do not fit: a gap, another epoch,
// tombstones that are already forgotten, or far more than a keyspace may hold.
bool add_delta(Keyspace& keyspace, const Delta& delta);

// Whether a complete keyspace keeps the bounds of directory_codec.hpp.
bool within_bounds(const Keyspace& keyspace);

}  // namespace gpunode::directory
