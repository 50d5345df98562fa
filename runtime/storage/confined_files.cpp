#include "runtime/storage/confined_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string_view>

#include "runtime/storage/detail/open_files.hpp"

namespace gpunode::storage {
namespace {

// Deeper than any path the system can name.
constexpr int kDepthLimit = 4096;

using Inode = std::pair<dev_t, ino_t>;

Inode inode_of(const struct stat& status) {
  return {status.st_dev, status.st_ino};
}

Error denied(const Path& path, std::string_view why) {
  return {ErrorCode::permission_denied, path.string() + " " + std::string(why)};
}

constexpr std::string_view kOfNode =
    "is of the node's state directory, which no job reads: `gpunode checkpoint export` writes "
    "weights "
    "elsewhere";
constexpr std::string_view kOutside = "is not of what is offered";
constexpr std::string_view kReadOnly = "is offered for reading alone";

// The folder and all that is in it, links themselves but not what they lead to. What goes away
// meanwhile is left out.
void collect(int folder, const char* name, std::set<Inode>& found) {
  const int opened =
      detail::open_retrying(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK);
  if (opened < 0) return;
  DIR* stream = ::fdopendir(opened);
  if (!stream) {
    ::close(opened);
    return;
  }
  struct stat status;
  if (::fstat(opened, &status) == 0) found.insert(inode_of(status));
  while (const dirent* item = ::readdir(stream)) {
    const std::string_view entry = item->d_name;
    if (entry == "." || entry == "..") continue;
    if (::fstatat(opened, item->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISDIR(status.st_mode))
      collect(opened, item->d_name, found);
    else
      found.insert(inode_of(status));
  }
  ::closedir(stream);
}

// Whether the folder is one of those in which `inner` lies.
bool holds(const Inode& folder, const Path& inner) {
  constexpr int kFolder = O_PATH | O_DIRECTORY;
  Descriptor at(detail::open_retrying(AT_FDCWD, inner.c_str(), kFolder));
  Inode last{};
  for (int depth = 0; depth < kDepthLimit && at.get() >= 0; ++depth) {
    struct stat status;
    if (::fstat(at.get(), &status) != 0 || inode_of(status) == last) return false;
    last = inode_of(status);
    if (last == folder) return true;
    at = Descriptor(detail::open_retrying(at.get(), "..", kFolder));
  }
  return false;
}

}  // namespace

Result<std::shared_ptr<const ConfinedFiles>> ConfinedFiles::open(Options options) {
  Descriptor root(detail::open_retrying(AT_FDCWD, options.place.c_str(), O_RDONLY | O_NONBLOCK));
  struct stat status;
  if (root.get() < 0 || ::fstat(root.get(), &status) != 0)
    return error_of_errno(errno, "cannot open", options.shown_as);
  std::set<Inode> closed;
  collect(AT_FDCWD, options.closed.c_str(), closed);
  if (closed.contains(inode_of(status))) return denied(options.shown_as, kOfNode);
  if (holds(inode_of(status), options.closed))
    return denied(options.shown_as,
                  "holds the node's state directory, which no job reads: name a folder beside it");
  return std::shared_ptr<const ConfinedFiles>(
      new ConfinedFiles(std::move(options.shown_as), std::move(root), std::move(closed)));
}

Result<Descriptor> ConfinedFiles::step(const Descriptor& folder, const std::string& name, int flags,
                                       const Path& path) const {
  Descriptor next(detail::open_retrying(folder.get(), name.c_str(), flags | O_NOFOLLOW));
  struct stat status;
  if (next.get() < 0) {
    const int cause = errno;
    const bool link = ::fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                      S_ISLNK(status.st_mode);
    if (link)
      return denied(path,
                    "leads over a link, and what is offered is what lies in it: put what the link "
                    "leads to in its place (`cp -rL` copies so)");
    return error_of_errno(cause, "cannot open", path);
  }
  if (::fstat(next.get(), &status) != 0) return error_of_errno(errno, "cannot inspect", path);
  if (closed_.contains(inode_of(status))) return denied(path, kOfNode);
  return next;
}

Result<Descriptor> ConfinedFiles::reach(const Path& path, int flags) const {
  const std::string wanted = path.string(), root = shown_as_.string();
  if (!wanted.starts_with(root) || (wanted.size() > root.size() && wanted[root.size()] != '/'))
    return denied(path, kOutside);
  const Path below = Path(wanted.substr(root.size())).relative_path();
  std::vector<std::string> parts;
  for (const Path& part : below) {
    if (part == "..") return denied(path, kOutside);
    if (!part.empty() && part != ".") parts.push_back(part.string());
  }
  Descriptor at(::fcntl(root_.get(), F_DUPFD_CLOEXEC, 0));
  if (at.get() < 0) return error_of_errno(errno, "cannot open", path);
  // A root that is a folder is opened anew, as a copy would share its place in the list of entries.
  if (parts.empty() && (flags & O_DIRECTORY)) return step(at, ".", flags, path);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto next = step(at, parts[i], i + 1 < parts.size() ? O_PATH | O_DIRECTORY : flags, path);
    if (!next) return next;
    at = *std::move(next);
  }
  return at;
}

Result<std::unique_ptr<ReadableFile>> ConfinedFiles::open(const Path& path) const {
  auto file = reach(path, O_RDONLY | O_NONBLOCK);
  if (!file) return file.error();
  return detail::readable(std::move(*file), path);
}

Result<std::vector<Entry>> ConfinedFiles::list(const Path& folder) const {
  auto opened = reach(folder, O_RDONLY | O_DIRECTORY);
  if (!opened) return opened.error();
  const int copy = ::fcntl(opened->get(), F_DUPFD_CLOEXEC, 0);
  DIR* stream = copy < 0 ? nullptr : ::fdopendir(copy);
  if (!stream && copy >= 0) ::close(copy);
  return detail::entries_of(stream, folder);
}

Result<Entry> ConfinedFiles::inspect(const Path& path) const {
  auto opened = reach(path, O_PATH);
  if (!opened) return opened.error();
  struct stat status;
  if (::fstat(opened->get(), &status) != 0) return error_of_errno(errno, "cannot inspect", path);
  return detail::entry_of(path.filename().string(), status);
}

Result<std::unique_ptr<WritableFile>> ConfinedFiles::write_new(const Path& path) {
  return denied(path, kReadOnly);
}
Result<void> ConfinedFiles::rename(const Path& from, const Path&) {
  return denied(from, kReadOnly);
}
Result<void> ConfinedFiles::sync_folder(const Path& folder) {
  return denied(folder, kReadOnly);
}
Result<void> ConfinedFiles::create_folder(const Path& folder) {
  return denied(folder, kReadOnly);
}
Result<void> ConfinedFiles::make_private(const Path& folder) {
  return denied(folder, kReadOnly);
}
Result<void> ConfinedFiles::remove(const Path& path) {
  return denied(path, kReadOnly);
}
Result<std::uint64_t> ConfinedFiles::free_bytes(const Path& path) const {
  return denied(path, kReadOnly);
}
Result<std::unique_ptr<FileLock>> ConfinedFiles::lock(const Path& path) {
  return denied(path, kReadOnly);
}

}  // namespace gpunode::storage
