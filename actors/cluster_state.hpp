// What this node knows about the others, as an immutable snapshot that any thread may read. Written
// by the cluster actor alone; hints for routing and for people, nothing here decides a step.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/messages.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/published.hpp"

namespace gpunode {

struct NodeInfo {
  NodeId id;
  Boot boot = 0;
  std::string name;  // as shown to people: name, or name~id where two nodes have one name
  PeerHealth health = PeerHealth::alive;
  std::map<std::string, std::string> labels;
  std::vector<std::string> endpoints;       // control
  std::vector<std::string> join_endpoints;  // where strangers may knock
  bool self = false;
  Time since{};              // of this health, on this node's clock
  std::uint32_t rights = 0;  // bits of security::Rights; 0 also for one that was put out

  bool lives() const { return health == PeerHealth::alive || health == PeerHealth::suspect; }
};

struct DirectoryEntry {
  NodeId owner;
  std::string key;
  Bytes value;
};

struct ClusterSnapshot {
  NodeId self;
  std::vector<NodeInfo> nodes;          // by id, this node included
  std::vector<DirectoryEntry> entries;  // by owner, then key
  std::vector<Bytes> records;           // of all live members, as membership encodes them

  const NodeInfo* find(const NodeId& id) const {
    for (const NodeInfo& node : nodes)
      if (node.id == id) return &node;
    return nullptr;
  }
  const NodeInfo* own() const { return find(self); }  // null before the node is up
  std::string name_of(const NodeId& id) const {
    const NodeInfo* node = find(id);
    return node ? node->name : id.short_text();
  }
  std::vector<std::string> names_of(std::span<const NodeId> ids) const {
    std::vector<std::string> names;
    for (const NodeId& id : ids) names.push_back(name_of(id));
    return names;
  }
  // The names with commas between them.
  std::string list_of(std::span<const NodeId> ids) const {
    std::string list;
    for (const NodeId& id : ids) list += (list.empty() ? "" : ", ") + name_of(id);
    return list;
  }
  bool alive(const NodeId& id) const {
    const NodeInfo* node = find(id);
    return node && node->lives();
  }
  // Null: the owner lists no such key.
  const DirectoryEntry* entry(const NodeId& owner, std::string_view key) const {
    const auto found = std::ranges::lower_bound(
        entries, std::pair(owner, key), {},
        [](const DirectoryEntry& one) { return std::pair(one.owner, std::string_view(one.key)); });
    const bool is_there = found != entries.end() && found->owner == owner && found->key == key;
    return is_there ? &*found : nullptr;
  }
};

using ClusterState = Published<ClusterSnapshot>;

}  // namespace gpunode
