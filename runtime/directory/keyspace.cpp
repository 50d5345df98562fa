#include "runtime/directory/keyspace.hpp"

#include <algorithm>

namespace gpunode::directory {

namespace {

void append(Bytes& bytes, ByteView view) {
  append_number(bytes, view.size());
  bytes.insert(bytes.end(), view.begin(), view.end());
}

std::size_t item_bytes(const std::string& key, const Bytes& value) {
  return key.size() + value.size() + 48;
}

}  // namespace

std::size_t Keyspace::live_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [key, value] : items)
    if (!value.tombstone) bytes += key.size() + value.value.size();
  return bytes;
}

std::size_t Keyspace::live_keys() const {
  return std::ranges::count_if(items, [](const auto& each) { return !each.second.tombstone; });
}

const Keyspace::Value* Keyspace::live(std::string_view key) const {
  const auto found = items.find(key);
  return found == items.end() || found->second.tombstone ? nullptr : &found->second;
}

void Keyspace::collect(std::uint64_t upto) {
  collected = std::max(collected, upto);
  std::erase_if(items, [&](const auto& each) {
    return each.second.tombstone && each.second.version <= collected;
  });
}

Bytes signed_bytes(const NodeId& owner, const Keyspace& keyspace) {
  Bytes bytes;
  append(bytes, as_bytes("gpunode directory keyspace 1"));
  append(bytes, ByteView(owner.value));
  append_number(bytes, keyspace.epoch);
  append_number(bytes, keyspace.collected);
  append_number(bytes, keyspace.version);
  append(bytes, ByteView(keyspace.root));
  return bytes;
}

Bytes signed_bytes(const Delta& delta) {
  return signed_bytes(delta.owner,
                      {delta.epoch, delta.collected, delta.version, delta.root, {}, {}});
}

Hash root_of(const Keyspace& keyspace, const DirectorySigning& signing) {
  Bytes bytes;
  for (const auto& [key, value] : keyspace.items) {
    append(bytes, as_bytes(key));
    append(bytes, ByteView(value.value));
    append_number(bytes, value.version * 2 + (value.tombstone ? 1 : 0));
  }
  return signing.hash(bytes);
}

std::size_t wire_estimate(const Delta& delta) {
  std::size_t bytes = 256;
  for (const Item& item : delta.items) bytes += item_bytes(item.key, item.value);
  return bytes;
}

std::vector<Delta> cut_deltas(const NodeId& owner, const Keyspace& keyspace, std::uint64_t since,
                              std::size_t max_bytes, std::size_t max_count) {
  if (since < keyspace.collected) since = 0;
  std::vector<std::pair<std::uint64_t, const std::string*>> order;
  for (const auto& [key, value] : keyspace.items)
    if (value.version > since) order.emplace_back(value.version, &key);
  std::sort(order.begin(), order.end());

  const auto empty_delta = [&](std::uint64_t from) {
    return Delta{owner,
                 keyspace.epoch,
                 keyspace.collected,
                 keyspace.version,
                 keyspace.root,
                 keyspace.signature,
                 from,
                 from};
  };
  std::vector<Delta> deltas{empty_delta(since)};
  std::size_t bytes = 256;
  for (const auto& [version, key] : order) {
    const Keyspace::Value& value = keyspace.items.find(*key)->second;
    const std::size_t size = item_bytes(*key, value.value);
    if (bytes + size > max_bytes && !deltas.back().items.empty()) {
      if (deltas.size() >= max_count) return deltas;
      deltas.push_back(empty_delta(deltas.back().upto));
      bytes = 256;
    }
    bytes += size;
    deltas.back().items.push_back({*key, value.value, version, value.tombstone});
    deltas.back().upto = version;
  }
  deltas.back().upto = keyspace.version;
  return deltas;
}

bool add_delta(Keyspace& keyspace, const Delta& delta) {
  if (delta.since == 0) {
    keyspace = Keyspace{};
    keyspace.epoch = delta.epoch;
  }
  if (delta.epoch != keyspace.epoch || delta.since > keyspace.version) return false;
  if (delta.since != 0 && delta.collected > keyspace.version) return false;
  for (const Item& item : delta.items) {
    if (item.version <= keyspace.version) continue;
    keyspace.items[item.key] = {item.value, item.version, item.tombstone};
  }
  keyspace.version = std::max(keyspace.version, delta.upto);
  keyspace.collect(delta.collected);
  // Half way in, old keys may stand beside the new ones that replaced them; hence the factor.
  return keyspace.items.size() <= 2 * kMaxItems && keyspace.live_bytes() <= 2 * kMaxBytesPerOwner;
}

bool within_bounds(const Keyspace& keyspace) {
  return keyspace.items.size() <= kMaxItems && keyspace.live_keys() <= kMaxKeysPerOwner &&
         keyspace.live_bytes() <= kMaxBytesPerOwner;
}

}  // namespace gpunode::directory
