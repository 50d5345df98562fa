// The in-memory twin of the file system, with a power switch. It remembers apart what a process
// sees and what a disk would hold: contents become durable by sync, names by sync_folder, as on a
// real disk that promises no more. crash() leaves what is durable; with an Rng it also lets random
// parts of the rest through, torn files included, as a real disk may.
// Owner: one test; one thread.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::testing {

using storage::Entry;
using storage::EntryKind;
using storage::Path;

class MemoryFileSystem final : public storage::FileSystem {
  struct Node {
    bool folder = false;
    Bytes live, durable;                                                // of a file
    std::map<std::string, std::shared_ptr<Node>> names, durable_names;  // of a folder
    // Renamed from here into other folders: where to. A rename is one entry of a disk's journal, so
    // that the old name is not gone for good before the new one is there.
    std::vector<std::pair<std::weak_ptr<Node>, std::string>> moved_out;
  };
  using NodePtr = std::shared_ptr<Node>;

 public:
  MemoryFileSystem() : root_(std::make_shared<Node>()) { root_->folder = true; }

  // Power loss: everything that was not made durable is gone.
  void crash() { lose(root_, nullptr); }
  // Power loss of a disk that had written some of it already.
  void crash(Rng& rng) { lose(root_, &rng); }
  void set_capacity(std::uint64_t bytes) { capacity_ = bytes; }
  // Flips one bit, as a failing disk would.
  void damage(const Path& path, std::uint64_t offset) {
    NodePtr node = find(path);
    GPUNODE_CHECK(node && offset < node->live.size(), "no such byte to damage: " + path.string());
    node->live[offset] ^= std::byte{1};
  }
  void truncate(const Path& path, std::uint64_t size) { find(path)->live.resize(size); }

  Result<std::unique_ptr<storage::WritableFile>> write_new(const Path& path) override {
    NodePtr folder = find(path.parent_path());
    if (!folder || !folder->folder) return storage::error_of_errno(ENOENT, "cannot create", path);
    NodePtr& node = folder->names[path.filename().string()];
    if (node) return storage::error_of_errno(EEXIST, "cannot create", path);
    node = std::make_shared<Node>();
    return std::unique_ptr<storage::WritableFile>(new Writer(*this, node, path));
  }

  Result<std::unique_ptr<storage::ReadableFile>> open(const Path& path) const override {
    NodePtr node = find(path);
    if (!node) return storage::error_of_errno(ENOENT, "cannot open", path);
    if (node->folder)
      return Error{ErrorCode::invalid_argument, path.string() + " is not a regular file"};
    return std::unique_ptr<storage::ReadableFile>(new Reader(node, path));
  }

  Result<void> rename(const Path& from, const Path& to) override {
    NodePtr node = find(from), target = find(to), folder = find(to.parent_path());
    if (!node || !folder) return storage::error_of_errno(ENOENT, "cannot rename", from);
    if (target && target->folder && (!node->folder || !target->names.empty()))
      return storage::error_of_errno(node->folder ? ENOTEMPTY : EISDIR, "cannot rename to", to);
    NodePtr source = find(from.parent_path());
    source->names.erase(from.filename().string());
    folder->names[to.filename().string()] = node;
    if (source != folder) source->moved_out.emplace_back(folder, to.filename().string());
    return {};
  }

  Result<void> sync_folder(const Path& folder) override {
    NodePtr node = find(folder);
    if (!node || !node->folder) return storage::error_of_errno(ENOENT, "cannot sync", folder);
    make_names_durable(*node);
    return {};
  }

  Result<void> create_folder(const Path& folder) override {
    NodePtr at = root_;
    for (const std::string& part : parts_of(folder)) {
      NodePtr& next = at->names[part];
      if (!next) {
        next = std::make_shared<Node>();
        next->folder = true;
        at->durable_names[part] = next;
      }
      if (!next->folder) return storage::error_of_errno(EEXIST, "cannot create", folder);
      at = next;
    }
    return {};
  }

  Result<void> make_private(const Path& folder) override {
    if (!find(folder)) return storage::error_of_errno(ENOENT, "cannot change", folder);
    return {};
  }

  Result<std::vector<Entry>> list(const Path& folder) const override {
    NodePtr node = find(folder);
    if (!node || !node->folder) return storage::error_of_errno(ENOENT, "cannot list", folder);
    std::vector<Entry> entries;
    for (const auto& [name, child] : node->names) entries.push_back(entry_of(name, *child));
    return entries;
  }

  Result<Entry> inspect(const Path& path) const override {
    NodePtr node = find(path);
    if (!node) return storage::error_of_errno(ENOENT, "cannot inspect", path);
    return entry_of(path.filename().string(), *node);
  }

  Result<void> remove(const Path& path) override {
    if (!find(path)) return storage::error_of_errno(ENOENT, "cannot remove", path);
    find(path.parent_path())->names.erase(path.filename().string());
    return {};
  }

  Result<std::uint64_t> free_bytes(const Path&) const override {
    std::uint64_t used = used_bytes(*root_);
    return capacity_ > used ? capacity_ - used : 0;
  }

  Result<std::unique_ptr<storage::FileLock>> lock(const Path& path) override {
    if (!locked_->insert(path.string()).second)
      return Error{ErrorCode::wrong_state,
                   path.string() + " is held by process " + std::to_string(::getpid())};
    if (!find(path)) {
      auto file = write_new(path);
      if (!file) {
        locked_->erase(path.string());
        return file.error();
      }
    }
    return std::unique_ptr<storage::FileLock>(new Lock(locked_, path.string()));
  }

 private:
  class Writer final : public storage::WritableFile {
   public:
    Writer(MemoryFileSystem& disk, NodePtr node, Path path)
        : disk_(disk), node_(std::move(node)), path_(std::move(path)) {}
    Result<void> append(ByteView bytes) override {
      std::size_t fits = std::min<std::uint64_t>(bytes.size(), *disk_.free_bytes(path_));
      node_->live.insert(node_->live.end(), bytes.begin(), bytes.begin() + fits);
      if (fits < bytes.size()) return storage::error_of_errno(ENOSPC, "cannot write", path_);
      return {};
    }
    Result<void> sync() override {
      node_->durable = node_->live;
      return {};
    }

   private:
    MemoryFileSystem& disk_;
    NodePtr node_;
    Path path_;
  };

  class Reader final : public storage::ReadableFile {
   public:
    Reader(NodePtr node, Path path) : node_(std::move(node)), path_(std::move(path)) {}
    std::uint64_t size_bytes() const override { return node_->live.size(); }
    Result<void> read_at(std::uint64_t offset, MutableByteView target) const override {
      if (offset > node_->live.size() || target.size() > node_->live.size() - offset)
        return Error{ErrorCode::corrupted, path_.string() + " ends early"};
      std::copy_n(node_->live.begin() + offset, target.size(), target.begin());
      return {};
    }

   private:
    NodePtr node_;
    Path path_;
  };

  class Lock final : public storage::FileLock {
   public:
    Lock(std::shared_ptr<std::set<std::string>> locked, std::string path)
        : locked_(std::move(locked)), path_(std::move(path)) {}
    ~Lock() override { locked_->erase(path_); }

   private:
    std::shared_ptr<std::set<std::string>> locked_;
    std::string path_;
  };

  static std::vector<std::string> parts_of(const Path& path) {
    std::vector<std::string> parts;
    for (const Path& part : path)
      if (part != "/" && part != "." && !part.empty()) parts.push_back(part.string());
    return parts;
  }

  NodePtr find(const Path& path) const {
    NodePtr at = root_;
    for (const std::string& part : parts_of(path)) {
      auto found = at->names.find(part);
      if (found == at->names.end()) return nullptr;
      at = found->second;
    }
    return at;
  }

  static Entry entry_of(const std::string& name, const Node& node) {
    return {name, node.folder ? EntryKind::folder : EntryKind::file, node.live.size()};
  }

  static std::uint64_t used_bytes(const Node& node) {
    std::uint64_t sum = node.live.size();
    for (const auto& [name, child] : node.names) sum += used_bytes(*child);
    return sum;
  }

  static void make_names_durable(Node& node) {
    node.durable_names = node.names;
    for (const auto& [folder, name] : std::exchange(node.moved_out, {})) {
      const NodePtr target = folder.lock();
      if (!target) continue;
      if (auto found = target->names.find(name); found != target->names.end())
        target->durable_names[name] = found->second;
    }
  }

  static void lose(const NodePtr& node, Rng* rng) {
    if (!node->folder) {
      if (rng && node->live != node->durable && rng->chance(0.5))
        node->durable.assign(node->live.begin(),
                             node->live.begin() + rng->below(node->live.size() + 1));
      node->live = node->durable;
      return;
    }
    // Names reach the disk in order or not at all; here all of a folder's or none.
    if (rng && rng->chance(0.5)) make_names_durable(*node);
    node->names = node->durable_names;
    for (const auto& [name, child] : node->names) lose(child, rng);
  }

  NodePtr root_;
  std::uint64_t capacity_ = std::uint64_t{1} << 40;
  std::shared_ptr<std::set<std::string>> locked_ = std::make_shared<std::set<std::string>>();
};

}  // namespace gpunode::testing
