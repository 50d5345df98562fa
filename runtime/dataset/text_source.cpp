#include "runtime/dataset/text_source.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/base/check.hpp"
#include "runtime/base/thrown_error.hpp"

namespace gpunode::dataset {
namespace {

using storage::Entry;
using storage::EntryKind;
using storage::Path;

// Deeper than any path the system can name.
constexpr int kDepthLimit = 2048;

Error of_data(const Error& error) {
  return error.within("data");
}

Result<void> walk(const storage::FileSystem& files, const Path& root, const std::string& below,
                  int depth, std::vector<std::pair<std::string, std::uint64_t>>& found) {
  if (depth > kDepthLimit)
    return Error{ErrorCode::invalid_argument,
                 "data: " + (root / below).string() + ": folders are nested too deeply"};
  Result<std::vector<Entry>> entries = files.list(below.empty() ? root : root / below);
  if (!entries) return of_data(entries.error());
  for (const Entry& entry : *entries) {
    std::string name = below.empty() ? entry.name : below + "/" + entry.name;
    if (entry.kind == EntryKind::file) {
      found.emplace_back(std::move(name), entry.size_bytes);
    } else if (entry.kind == EntryKind::folder) {
      if (Result<void> done = walk(files, root, name, depth + 1, found); !done) return done;
    }
  }
  return {};
}

Error changed(const Path& path) {
  return {ErrorCode::unavailable,
          "data: " + path.string() + " changed while it was being read: try again"};
}

Result<SharedBytes> load(const storage::FileSystem& files, const Path& path, std::uint64_t size) {
  Result<Bytes> bytes = files.read(path, size);
  if (bytes && bytes->size() != size) return changed(path);
  if (bytes) return SharedBytes::from(std::move(*bytes));
  const ErrorCode code = bytes.error().code;
  if (code == ErrorCode::resource_exhausted || code == ErrorCode::corrupted) return changed(path);
  return of_data(bytes.error());
}

using Opened = Result<std::shared_ptr<const storage::ReadableFile>>;

Opened open_again(const storage::FileSystem& files, const Path& path, std::uint64_t size) {
  auto file = files.open(path);
  if (!file) return of_data(file.error());
  if ((*file)->size_bytes() != size) return changed(path);
  return std::shared_ptr<const storage::ReadableFile>(std::move(*file));
}

void add_number(storage::Sha256Stream& stream, std::uint64_t value) {
  Bytes raw;
  append_number(raw, value);
  stream.add(raw);
}

}  // namespace

TextSource::TextSource(std::vector<File> files) : files_(std::move(files)) {
  for (File& file : files_) {
    file.offset = size_bytes_;
    size_bytes_ += file.size_bytes;
  }
}

Result<TextSource> TextSource::open(const std::shared_ptr<const storage::FileSystem>& files,
                                    const Path& path, TextSourceOptions options) {
  Result<Entry> entry = files->inspect(path);
  if (!entry) return of_data(entry.error());
  std::vector<std::pair<std::string, std::uint64_t>> found;
  if (entry->kind == EntryKind::file) {
    found.emplace_back("", entry->size_bytes);
  } else if (entry->kind == EntryKind::folder) {
    if (Result<void> done = walk(*files, path, "", 0, found); !done) return done.error();
  } else {
    return Error{ErrorCode::invalid_argument,
                 "data: " + path.string() + " is neither a file nor a folder"};
  }
  std::sort(found.begin(), found.end());
  std::uint64_t total = 0;
  for (const auto& [name, size] : found) total += size;
  if (total == 0)
    return Error{ErrorCode::invalid_argument,
                 "data: " + path.string() + " holds no text: name a file or a folder of files"};
  std::vector<File> loaded;
  loaded.reserve(found.size());
  for (auto& [name, size] : found) {
    const Path place = name.empty() ? path : path / name;
    File file{std::move(name), 0, size, {}, {}};
    if (total < options.copy_below_bytes) {
      auto bytes = load(*files, place, size);
      if (!bytes) return bytes.error();
      file.bytes = std::move(*bytes);
    } else {
      file.open = [files, place, size = size] { return open_again(*files, place, size); };
      const Opened opened = file.open();
      if (!opened) return opened.error();
      if (loaded.size() < options.open_files) file.open = [opened] { return opened; };
    }
    loaded.push_back(std::move(file));
  }
  return TextSource(std::move(loaded));
}

TextSource TextSource::from_memory(std::vector<std::pair<std::string, Bytes>> files) {
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<File> loaded;
  for (auto& [name, bytes] : files) {
    const std::uint64_t size = bytes.size();
    loaded.push_back({std::move(name), 0, size, SharedBytes::from(std::move(bytes)), {}});
  }
  return TextSource(std::move(loaded));
}

void TextSource::File::copy(std::uint64_t first, MutableByteView target) const {
  if (target.empty()) return;
  if (!open) {
    std::memcpy(target.data(), bytes.view.data() + first, target.size());
    return;
  }
  const auto file = open();
  if (!file) throw ThrownError(file.error());
  const Result<void> done = (*file)->read_at(first, target);
  if (done) return;
  if (done.error().code != ErrorCode::corrupted) throw ThrownError(of_data(done.error()));
  throw ThrownError({ErrorCode::unavailable,
                     "data: " + done.error().detail + ": it was cut short while it was in use"});
}

void TextSource::copy(std::uint64_t offset, MutableByteView target) const {
  GPUNODE_CHECK(offset <= size_bytes_ && target.size() <= size_bytes_ - offset,
                "bytes beyond the end of the data");
  if (target.empty()) return;
  auto file = std::upper_bound(files_.begin(), files_.end(), offset,
                               [](std::uint64_t at, const File& f) { return at < f.offset; });
  --file;
  while (!target.empty()) {
    std::uint64_t inside = offset - file->offset;
    std::size_t count = std::min<std::uint64_t>(target.size(), file->size_bytes - inside);
    file->copy(inside, target.first(count));
    target = target.subspan(count);
    offset += count;
    ++file;
  }
}

storage::Sha256 TextSource::data_digest() const {
  storage::Sha256Stream stream;
  for (const File& file : files_) {
    add_number(stream, file.name.size());
    stream.add(as_bytes(file.name));
    add_number(stream, file.size_bytes);
    file.stream([&](ByteView piece) { stream.add(piece); });
  }
  return stream.finish();
}

}  // namespace gpunode::dataset
