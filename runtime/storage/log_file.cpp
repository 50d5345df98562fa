#include "runtime/storage/log_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace gpunode::storage {
namespace {

Path older(const Path& path, int number) {
  return number == 0 ? path : Path(path.string() + '.' + std::to_string(number));
}

}  // namespace

Result<std::unique_ptr<LogFile>> LogFile::open(Options options) {
  std::unique_ptr<LogFile> file(new LogFile(std::move(options)));
  if (auto opened = file->open_path(); !opened) return opened.error();
  return file;
}

LogFile::~LogFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<void> LogFile::open_path() {
  const int opened =
      ::open(options_.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
  if (opened < 0) return error_of_errno(errno, "cannot open the log", options_.path);
  if (options_.takes_output)
    for (const int standard : {STDOUT_FILENO, STDERR_FILENO}) dup2(opened, standard);
  if (const int before = std::exchange(descriptor_, opened); before >= 0) close(before);
  return {};
}

void LogFile::rotate() {
  for (int number = options_.kept; number > 0; --number)
    (void)::rename(older(options_.path, number - 1).c_str(), older(options_.path, number).c_str());
  (void)open_path();  // where that fails, the old one is gone on with
}

void LogFile::write(std::string_view lines) {
  std::lock_guard lock(mutex_);
  struct stat found {};  // others may write to it, too
  const bool known = fstat(descriptor_, &found) == 0 && found.st_size > 0;
  if (known && static_cast<std::uint64_t>(found.st_size) + lines.size() > options_.limit_bytes)
    rotate();
  while (!lines.empty()) {
    const ssize_t written = ::write(descriptor_, lines.data(), lines.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    lines.remove_prefix(static_cast<std::size_t>(written));
  }
}

Result<void> LogFile::reopen() {
  std::lock_guard lock(mutex_);
  return open_path();
}

std::vector<Path> LogFile::all(const Path& path) {
  std::vector<Path> files;
  constexpr int kMost = 100;
  for (int number = kMost; number >= 0; --number) {
    std::error_code failure;
    if (const Path file = older(path, number); std::filesystem::is_regular_file(file, failure))
      files.push_back(file);
  }
  return files;
}

}  // namespace gpunode::storage
