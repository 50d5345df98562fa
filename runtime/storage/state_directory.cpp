#include "runtime/storage/state_directory.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace gpunode::storage {
namespace {

constexpr std::string_view kFormatPrefix = "gpunode state ";

std::string format_text() {
  return std::string(kFormatPrefix) + std::to_string(StateDirectory::kFormat) + "\n";
}

// Nothing when the text is no format file at all.
std::optional<int> parse_format(std::string_view text) {
  if (!text.starts_with(kFormatPrefix)) return std::nullopt;
  text.remove_prefix(kFormatPrefix.size());
  int number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc{})
    return std::nullopt;
  return number;
}

Error of_directory(const Path& path, ErrorCode code, const std::string& detail) {
  return Error{code, "state directory " + path.string() + " " + detail};
}

// Taking over a folder that somebody uses for something else would lock them out of it (0700).
Result<void> refuse_foreign(FileSystem& files, const Path& path) {
  Result<std::vector<Entry>> inside = files.list(path);
  if (!inside) return inside.error().within("state directory");
  auto ours = [](const Entry& entry) {
    return entry.name == "lock" || entry.name == "format" || entry.name == ".writable" ||
           is_temporary(entry.name) ||
           entry.name == "gpunode.toml";  // written before the first start
  };
  const bool has_format = std::ranges::count(*inside, "format", &Entry::name) > 0;
  if (!has_format && !std::ranges::all_of(*inside, ours))
    return of_directory(path, ErrorCode::invalid_argument,
                        "is a folder that gpunode did not make: name an empty or new one");
  return {};
}

Result<void> check_format(FileSystem& files, const Path& path) {
  constexpr std::uint64_t kMostBytes = 64;
  Result<Bytes> text = files.read(path / "format", kMostBytes);
  if (!text && text.error().code == ErrorCode::not_found) {
    std::string ours = format_text();
    if (Result<void> done = files.write_atomic(path / "format", {as_bytes(ours)}); !done)
      return done.error().within("state directory");
    return {};
  }
  if (!text) {  // one that is too long is damaged; one that nobody could open need not be
    const Result<Entry> file = files.inspect(path / "format");
    if (!file || file->size_bytes <= kMostBytes) return text.error().within("state directory");
  }
  std::optional<int> format = text ? parse_format(as_text(*text)) : std::nullopt;
  if (!format)
    return of_directory(path, ErrorCode::corrupted,
                        "has a damaged file `format`: restore it from a copy, or name another "
                        "directory");
  if (*format != StateDirectory::kFormat)
    return of_directory(path, ErrorCode::unsupported,
                        "was made by another version of gpunode (format " +
                            std::to_string(*format) + ", this one uses " +
                            std::to_string(StateDirectory::kFormat) +
                            "): use that version, or name another directory");
  return {};
}

Result<void> check_writable(FileSystem& files, const Path& path) {
  Path probe = path / ".writable";
  if (files.exists(probe)) (void)files.remove(probe);
  auto attempt = [&]() -> Result<void> {
    Result<std::unique_ptr<WritableFile>> file = files.write_new(probe);
    if (!file) return file.error();
    if (Result<void> done = (*file)->append(as_bytes("probe")); !done) return done;
    return (*file)->sync();
  };
  Result<void> written = attempt();
  if (files.exists(probe)) (void)files.remove(probe);
  if (!written) return written.error().within("state directory cannot be written");
  return {};
}

// What a crash left of writes; nobody but the holder of the lock writes here. One that cannot be
// removed costs its space.
void remove_temporaries(FileSystem& files, const Path& folder) {
  const auto inside = files.list(folder);
  if (!inside) return;
  for (const Entry& entry : *inside) {
    if (entry.kind == EntryKind::folder) remove_temporaries(files, folder / entry.name);
    if (entry.kind == EntryKind::file && is_temporary(entry.name))
      (void)files.remove(folder / entry.name);
  }
}

}  // namespace

Result<Path> StateDirectory::make(FileSystem& files, const Path& path) {
  std::error_code failure;
  Path absolute = std::filesystem::absolute(path, failure).lexically_normal();
  if (failure || path.empty())
    return Error{ErrorCode::invalid_argument, "a state directory needs a path"};
  if (!absolute.has_filename()) absolute = absolute.parent_path();
  std::size_t length = (absolute / "node.sock").native().size();
  if (length > kSocketPathLimitBytes)
    return of_directory(absolute, ErrorCode::invalid_argument,
                        "is too long: the path of the socket inside it has " +
                            std::to_string(length) + " bytes and the system allows " +
                            std::to_string(kSocketPathLimitBytes) +
                            ": name a shorter directory with --state");
  if (Result<void> done = files.create_folder(absolute); !done)
    return done.error().within("state directory");
  return absolute;
}

Result<StateDirectory> StateDirectory::open(FileSystem& files, const Path& path) {
  const Result<Path> made = make(files, path);
  if (!made) return made.error();
  const Path& absolute = *made;
  if (Result<void> done = refuse_foreign(files, absolute); !done) return done.error();
  Result<std::unique_ptr<FileLock>> lock = files.lock(absolute / "lock");
  if (!lock && lock.error().code == ErrorCode::wrong_state)
    return of_directory(absolute, ErrorCode::wrong_state,
                        "is in use (" + lock.error().detail +
                            "): stop that node, or name another directory with --state");
  if (!lock) return lock.error().within("state directory cannot be written");
  if (Result<void> done = files.make_private(absolute); !done)
    return done.error().within("state directory");
  if (Result<void> done = check_format(files, absolute); !done) return done.error();
  if (Result<void> done = check_writable(files, absolute); !done) return done.error();
  remove_temporaries(files, absolute);
  return StateDirectory(files, absolute, std::move(*lock));
}

bool StateDirectory::in_use(FileSystem& files, const Path& path) {
  if (!std::filesystem::exists(path / "lock")) return false;
  const auto lock = files.lock(path / "lock");
  return !lock && lock.error().code == ErrorCode::wrong_state;
}

Result<Path> StateDirectory::folder(std::string_view name) const {
  Path inside = path_ / name;
  if (Result<void> done = files_->create_folder(inside); !done) return done.error();
  return inside;
}

}  // namespace gpunode::storage
