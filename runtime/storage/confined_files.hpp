// One file or folder of this machine, for reading alone, seen as a file system in which nothing else
// exists: what a node's owner lets jobs of others read. Each step of a path is opened below the one
// before, and no link is followed but those of the way to the root itself: who renames or replaces
// something meanwhile makes a reading fail and never lead elsewhere. A closed folder, the node's
// state directory, is refused however it is reached: above the root, below it, by a hard link, a
// mount or a name in /proc. Its errors name the root as its callers do, not where it lies.
// Owner: whoever reads; any thread. Cost: one system call a part of a path, and at the opening one for
// each file in the closed folder.
#pragma once

#include <sys/types.h>

#include <memory>
#include <set>
#include <utility>

#include "runtime/base/descriptor.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::storage {

class ConfinedFiles final : public FileSystem {
 public:
  struct Options {
    Path place;     // of the root; may be a link
    Path shown_as;  // what the root is called here
    Path closed;    // a folder of which nothing is given
  };
  // Fails as opening does, and with permission_denied where root and closed folder hold one another.
  static Result<std::shared_ptr<const ConfinedFiles>> open(Options options);

  Result<std::unique_ptr<ReadableFile>> open(const Path& path) const override;
  Result<std::vector<Entry>> list(const Path& folder) const override;
  Result<Entry> inspect(const Path& path) const override;

  // Nothing is ever written: all of these fail with permission_denied.
  Result<std::unique_ptr<WritableFile>> write_new(const Path& path) override;
  Result<void> rename(const Path& from, const Path& to) override;
  Result<void> sync_folder(const Path& folder) override;
  Result<void> create_folder(const Path& folder) override;
  Result<void> make_private(const Path& folder) override;
  Result<void> remove(const Path& path) override;
  Result<std::uint64_t> free_bytes(const Path& path) const override;
  Result<std::unique_ptr<FileLock>> lock(const Path& path) override;

 private:
  using Inode = std::pair<dev_t, ino_t>;
  ConfinedFiles(Path shown_as, Descriptor root, std::set<Inode> closed)
      : shown_as_(std::move(shown_as)), root_(std::move(root)), closed_(std::move(closed)) {}

  // What stands at `path`, opened with `flags`.
  Result<Descriptor> reach(const Path& path, int flags) const;
  Result<Descriptor> step(const Descriptor& folder, const std::string& name, int flags,
                          const Path& path) const;

  Path shown_as_;
  Descriptor root_;
  std::set<Inode> closed_;
};

}  // namespace gpunode::storage
